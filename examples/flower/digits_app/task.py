"""The net, and its training and evaluation."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy


class Net(nn.Module):
    """Convolutions with batch normalisation for images of 8 × 8 pixels."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        )  # fmt: skip
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        """Return the scores of the digits."""
        return self.head(self.features(x.view(-1, 1, 8, 8)))


def arrays_of(net):
    """Return the parameters and buffers of *net*, without the counters of batch normalisation, which are integers."""
    return {name: value for name, value in net.state_dict().items() if value.is_floating_point()}


def load_arrays(net, arrays):
    """Let *net* have the parameters and buffers in an `ArrayRecord`."""
    net.load_state_dict(arrays.to_torch_state_dict(), strict=False)


def train(net, data, epochs, batch_size, rate, proximal_mu, generator):
    """Train *net* on the examples of a user with SGD, and return the mean loss."""
    x, y = torch.from_numpy(data.x), torch.from_numpy(data.y)
    start = [parameter.detach().clone() for parameter in net.parameters()]
    optimizer = torch.optim.SGD(net.parameters(), lr=rate)
    net.train()
    total = steps = 0
    for _ in range(epochs):
        for rows in torch.randperm(len(y), generator=generator).split(batch_size):
            if len(rows) < 2:  # batch normalisation needs two examples
                continue
            optimizer.zero_grad()
            loss = cross_entropy(net(x[rows]), y[rows])
            distance = sum(((a - b) ** 2).sum() for a, b in zip(net.parameters(), start, strict=True))
            (loss + proximal_mu / 2 * distance).backward()
            optimizer.step()
            total, steps = total + loss.item(), steps + 1
    return total / max(steps, 1)


@torch.no_grad()
def test(net, data):
    """Return loss and accuracy of *net* on *data*."""
    net.eval()
    scores, y = net(torch.from_numpy(data.x)), torch.from_numpy(data.y)
    return cross_entropy(scores, y).item(), (scores.argmax(1) == y).double().mean().item()
