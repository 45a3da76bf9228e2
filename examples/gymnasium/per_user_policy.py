"""A policy of stable-baselines3 that applies one network to every user, so that its size does not depend on them."""

from __future__ import annotations

from typing import Any

import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor, nn


class PerUserNetwork(nn.Module):
    """Score each user by its own features and by what the network sees in all users; value the state by the latter.

    Args:
        features: number of features of each user.
        users: number of users.
        outputs: numbers that the policy needs for each user.
        width: width of the hidden layers.
    """

    def __init__(self, features: int, users: int, outputs: int, width: int = 32) -> None:
        super().__init__()
        self.features, self.latent_dim_pi, self.latent_dim_vf = features, users * outputs, width
        self.actor_view = nn.Sequential(nn.Linear(features, width), nn.Tanh())
        self.actor = nn.Sequential(nn.Linear(2 * width, width), nn.Tanh(), nn.Linear(width, outputs))
        self.critic_view = nn.Sequential(nn.Linear(features, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Return the outputs of the users and the input of the value."""
        return self.forward_actor(observation), self.forward_critic(observation)

    def forward_actor(self, observation: Tensor) -> Tensor:
        """Return the outputs of the users, output by output, ``[batch, outputs * users]``."""
        own = self.actor_view(self._by_user(observation))
        both = torch.cat([own, own.mean(dim=1, keepdim=True).expand_as(own)], dim=2)
        return self.actor(both).transpose(1, 2).flatten(1)

    def forward_critic(self, observation: Tensor) -> Tensor:
        """Return the mean of what the critic sees in the users, ``[batch, width]``."""
        return self.critic_view(self._by_user(observation)).mean(dim=1)

    def _by_user(self, observation: Tensor) -> Tensor:
        """Return the features of each user, ``[batch, users, features]``."""
        return observation.unflatten(1, (self.features, -1)).transpose(1, 2)


class PerUserPolicy(ActorCriticPolicy):
    """A policy for flat observations of user features only.

    Args:
        features: number of observed features of each user.
        users: number of users; the action has one or several numbers for each.
    """

    def __init__(self, *args: Any, features: int, users: int, **options: Any) -> None:
        self._sizes = features, users
        super().__init__(*args, **options)

    def _build_mlp_extractor(self) -> None:
        features, users = self._sizes
        self.mlp_extractor = PerUserNetwork(features, users, self.action_space.shape[0] // users)

    def _build(self, lr_schedule: Any) -> None:
        super()._build(lr_schedule)
        self.action_net = nn.Identity()  # the outputs of the network are the means or logits of the action
        self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)
