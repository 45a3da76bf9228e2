"""Topologies in scenarios and in files of four formats."""

import json
import math
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from netfl.errors import ScenarioError
from netfl.network.topology.file import File, great_circle_m, project
from netfl.network.topology.inline import Inline
from netfl.streams import Streams
from netfl.types import ScenarioFacts

STREAMS = Streams(5)
DATA = Path(__file__).parents[1] / "data"
AT_TOWERS = {"kind": "clusters", "radius": 100}
FIBRE_M_S = 299_792_458 * 2 / 3


def open_file(name, **overrides):
    return File(file=DATA / name, placement=AT_TOWERS, **overrides).open(20, STREAMS)


def open_fault(name, **overrides):
    with pytest.raises(ScenarioError) as error:
        open_file(name, **overrides)
    (fault,) = error.value.faults
    faults = File(file=DATA / name, placement=AT_TOWERS, **overrides).faults(ScenarioFacts(users=20, rounds=1))
    assert [*faults] == [fault]
    return fault


def position(layout, name):
    return layout.node_xy_m[layout.number(name)].tolist()


class TestFormats:
    def test_graphml_with_all_attributes(self):
        layout = open_file("valley.graphml")
        assert layout.names == ("server", "router:pass", "tower:mast")
        assert layout.graph.edges["server", "router:pass"] == {"rate_bps": 1e8, "delay_s": 0.002, "weight": 3.0}
        link = layout.graph.edges["router:pass", "tower:mast"]
        assert link == {"rate_bps": 1e7, "delay_s": pytest.approx(50 / FIBRE_M_S)}
        assert position(layout, "tower:mast") == [100.0, 50.0]
        assert (layout.distance_m <= 100.0).all()

    def test_node_link_json(self):
        layout = open_file("nodelink.json")
        assert layout.names == ("server", "tower:mast")
        assert layout.graph.edges["server", "tower:mast"]["delay_s"] == pytest.approx(500 / FIBRE_M_S)

    def test_edge_list_on_circle(self):
        layout = open_file("plain.edges", server="b", towers="degree_one", ring="1 km", rate="1 Mbps")
        assert set(layout.towers) == {"tower:a", "tower:c", "tower:d"}
        assert layout.graph.edges["server", "tower:c"]["delay_s"] == 0.25
        assert math.hypot(*position(layout, "tower:a")) == pytest.approx(1000.0)

    def test_positions_from_scenario_and_neighbours(self):
        positions = {"a": [0, 0], "c": [300, 0], "d": ["0 m", "0.6 km"]}
        layout = open_file("plain.edges", server="b", towers=["c"], rate=1e6, positions=positions)
        assert position(layout, "server") == pytest.approx([100.0, 200.0])
        assert position(layout, "router:d") == [0.0, 600.0]

    def test_format_can_be_set(self, tmp_path):
        path = tmp_path / "network.data"
        path.write_text((DATA / "valley.graphml").read_text())
        model = File(file=path, format="graphml", placement=AT_TOWERS)
        assert len(model.open(1, STREAMS).names) == 3
        with pytest.raises(ScenarioError, match=r"the suffix '.data' has no known format.*; set format"):
            File(file=path, placement=AT_TOWERS).open(1, STREAMS)


class TestTopologyZoo:
    LAYOUT = open_file("zoo.gml", server="Wien", towers="all", rate="100 Mbps")

    def test_repeated_labels_have_ids(self):
        assert self.LAYOUT.names == ("server", "tower:Graz", "tower:Exchange#2", "tower:Exchange#3")
        fault = open_fault("zoo.gml", server="Exchange", towers="all", rate=1)
        assert fault.remedy == "several nodes have this label: Exchange#2, Exchange#3"

    def test_fastest_of_parallel_links_is_kept(self):
        assert self.LAYOUT.graph.edges["server", "tower:Graz"]["rate_bps"] == 10e9

    def test_link_speeds_and_default_rate(self):
        edges = self.LAYOUT.graph.edges
        assert edges["server", "tower:Exchange#2"]["rate_bps"] == 622e6
        assert edges["tower:Graz", "tower:Exchange#2"]["rate_bps"] == 1e8
        assert edges["server", "tower:Exchange#3"]["rate_bps"] == 1e8

    def test_node_without_coordinates_is_between_neighbours(self):
        ends = np.array([position(self.LAYOUT, name) for name in ("server", "tower:Graz")])
        assert position(self.LAYOUT, "tower:Exchange#2") == pytest.approx(ends.mean(axis=0).tolist())

    def test_delays_are_great_circles_through_fibre(self):
        """Vienna to Graz is 145 km in a straight line."""
        delay_s = self.LAYOUT.graph.edges["server", "tower:Graz"]["delay_s"]
        assert delay_s * FIBRE_M_S == pytest.approx(145e3, rel=0.01)

    def test_distances_in_plane_match_globe(self):
        ends = [position(self.LAYOUT, name) for name in ("server", "tower:Exchange#3")]
        distance_m = great_circle_m((48.20849, 16.37208), (47.79941, 13.04399))
        assert math.dist(*ends) == pytest.approx(distance_m, rel=0.01)

    def test_missing_rate_is_reported_with_link_and_remedy(self):
        fault = open_fault("zoo.gml", server="Wien", towers="all")
        assert fault.key == "rate"
        assert fault.problem.startswith("link Wien – Exchange#3 has no attribute rate_bps, LinkSpeedRaw")
        assert fault.remedy == "set rate for links without one"


class TestGlobe:
    def test_known_distances(self):
        """A degree of the meridian of a sphere of 6371.0088 km, and Berlin to Tokyo, about 8,920 km."""
        assert great_circle_m((10, 20), (11, 20)) == pytest.approx(111_195.08, abs=0.1)
        assert great_circle_m((52.5200, 13.4050), (35.6762, 139.6503)) == pytest.approx(8.92e6, rel=0.005)

    def test_projection_crosses_date_line(self):
        positions = project({"Suva": (-18.0, 178.5), "Apia": (-14.0, -171.8)})
        assert math.dist(*positions.values()) == pytest.approx(
            great_circle_m((-18.0, 178.5), (-14.0, -171.8)), rel=0.01
        )


class TestFileErrors:
    def test_missing_server_is_rejected(self):
        fault = open_fault("zoo.gml", towers="all", rate=1)
        assert (fault.key, fault.problem) == ("server", "no node has the attribute role: server")
        assert "Wien, Graz" in fault.remedy

    def test_missing_tower_is_rejected(self):
        fault = open_fault("zoo.gml", server="Wien", rate=1)
        assert (fault.key, fault.problem) == ("towers", "no node has the attribute role: tower")

    def test_similar_name_is_suggested(self):
        fault = open_fault("zoo.gml", server="Vien", towers="all", rate=1)
        assert (fault.key, fault.value, fault.remedy) == ("server", "Vien", "did you mean 'Wien'?")
        assert open_fault("valley.graphml", towers=["mist"]).remedy == "did you mean 'mast'?"

    def test_missing_coordinates_are_rejected(self):
        fault = open_fault("plain.edges", server="b", towers="all", rate=1)
        assert fault.problem == "no position is known for a and 3 more nodes"
        assert "Latitude and Longitude" in fault.remedy

    def test_similar_file_is_suggested(self):
        fault = open_fault("zoo.gmk", server="Wien", format="gml")
        assert "No such file" in fault.problem
        assert fault.remedy == "did you mean 'zoo.gml'?"

    def test_other_files_of_the_folder_are_not_suggested(self):
        fault = open_fault("abilene.graphml", server="Wien")
        assert "No such file" in fault.problem
        assert fault.remedy == "relative paths start at the current directory"

    def test_disconnected_towers_are_rejected(self, tmp_path):
        path = tmp_path / "split.edges"
        path.write_text("a b\nc d\n")
        fault = open_fault(path, server="a", towers="all", rate=1, ring=1)
        assert fault.problem == "no path connects c, d to a"

    @pytest.mark.parametrize(
        ("name", "text", "problem"),
        [
            ("x.graphml", "<graphml", "is not a graphml file"),
            ("x.graphml", '<!DOCTYPE g [<!ENTITY a "b">]><graphml/>', "which is not supported"),
            ("x.gml", "graph [ node [ ] ]", "is not a gml file"),
            ("x.gml", "", "is not a gml file"),
            ("x.json", "[1, 2]", "is not a json file"),
            ("x.json", '{"nodes": [{"id": 1}], "links": [{"source": 1, "target": 7}]}', "7, which is not a node"),
            ("x.json", "[" * 100_000, "is not a json file"),
            ("x.edges", "", "it has no nodes"),
            ("x.edges", "a,b\nb,c\n", "line 1 has commas between its values: write blanks in their place"),
            ("x.edges", "a, b\n", "line 1 has commas between its values"),
            ("x.edges", "a b\nb,c,10 {'rate_bps': 1}\n", "line 2 has commas between its values"),
            ("x.edges", "a {'rate_bps': 1}\n", "line 1 has only one node"),
            ("x.json", '{"nodes": [{"id": 1, "role": "boss"}], "links": []}', "has the role 'boss'"),
            ("x.json", '{"nodes": [{"id": 1, "lat": 95, "lon": 0, "role": "server"}], "links": []}', "no node has"),
        ],
    )
    def test_invalid_files_have_one_error(self, tmp_path, name, text, problem):
        (tmp_path / name).write_text(text)
        fault = open_fault(tmp_path / name)
        assert problem in fault.problem
        assert fault.remedy

    def test_negative_rate_is_rejected(self, tmp_path):
        (tmp_path / "x.edges").write_text("a b {'rate_bps': -1}")
        fault = open_fault(tmp_path / "x.edges", server="a", towers="all", ring=1)
        assert "link a – b has rate_bps -1" in fault.problem


def write_link(path, link, graph=(), node=()):
    """Write a server and a tower 1000 m away, with a link, in the format of the suffix; return the path."""
    network = nx.MultiGraph(**dict(graph))
    network.add_node("S", role="server", x_m=0, y_m=0)
    network.add_node("T", **({"role": "tower", "x_m": 1000, "y_m": 0} | dict(node)))
    network.add_edge("S", "T", **link)
    if path.suffix == ".graphml":
        nx.write_graphml(network, path)
    elif path.suffix == ".gml":
        nx.write_gml(network, path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(nx.node_link_data(network, edges="links")))
    else:
        path.write_text(f"S T {dict(link)!r}\n")
    return path


def read_link(path, **overrides):
    """Return the link of `write_link`, and the warnings."""
    places = {"positions": {"S": (0, 0), "T": (1000, 0)}, "server": "S", "towers": "all"}
    model = File(file=path, placement=AT_TOWERS, **places, **overrides)
    return model.open(2, STREAMS).graph.edges["server", "tower:T"], [*model.warnings()]


class TestNamesOfOtherPrograms:
    """Rates, delays and lengths by the names and units of FNSS, the Topology Zoo and others, in all formats."""

    DELAY_S = 1000 / FIBRE_M_S

    @pytest.mark.parametrize("suffix", [".graphml", ".gml", ".json", ".edges"])
    @pytest.mark.parametrize(
        ("link", "rate_bps", "delay_s"),
        [
            ({"capacity": "2 Gbps"}, 2e9, DELAY_S),
            ({"bandwidth": "1 kbps", "latency": "500 ms"}, 1e3, 0.5),
            ({"bandwidth_mbps": 20, "delay_ms": 3.5}, 20e6, 0.0035),
            ({"bandwidthMbps": "20", "delayUs": 4}, 20e6, 4e-6),
            ({"LINK_CAPACITY": "5 Mbit/s", "Latency_s": 2}, 5e6, 2.0),
            ({"bw": "1 Mbps", "length_km": 100}, 1e6, 1e5 / FIBRE_M_S),
            ({"data_rate": "1 Mbps", "distance": "100 km"}, 1e6, 1e5 / FIBRE_M_S),
            ({"LinkSpeed": "155", "LinkSpeedUnits": "M", "LinkLabel": "155 Mbps"}, 155e6, DELAY_S),
            ({"LinkSpeedRaw": 2.5e9, "LinkSpeed": "2.5", "LinkSpeedUnits": "G"}, 2.5e9, DELAY_S),
            ({"LinkLabel": "10 Gb/s"}, 10e9, DELAY_S),
            ({"LinkLabel": "10G"}, 10e9, DELAY_S),
            ({"bandwidth": "10G"}, 10e9, DELAY_S),
            ({"bandwidth": "2.5 G", "LinkLabel": "2.5 Gbps"}, 2.5e9, DELAY_S),
            ({"max_capacity": "100 Mbps"}, 100e6, DELAY_S),
            ({"rate_mbit": 20}, 20e6, DELAY_S),
            ({"bw_Gbit": 1}, 1e9, DELAY_S),
            ({"ifSpeed": 1_000_000_000, "ifHighSpeed": 1000}, 1e9, DELAY_S),  # RFC 2863: bit/s and 10⁶ bit/s
            # the exact rate of an OC-48 beside its usual name
            ({"rate_bps": 2_488_320_000, "LinkLabel": "2.5 Gbps"}, 2_488_320_000.0, DELAY_S),
            ({"rate_bps": 1e6, "LinkLabel": "OC-48", "LinkNote": "leased", "LinkType": "fibre"}, 1e6, DELAY_S),
            ({"rate_bps": 1e6, "weight": 2, "bandwidth": ""}, 1e6, DELAY_S),
        ],
    )
    def test_links(self, tmp_path, suffix, link, rate_bps, delay_s):
        if suffix in {".gml", ".graphml"}:  # which have no underscore at the start, and no empty values
            link = {name: value for name, value in link.items() if value != ""}
        edge, found = read_link(write_link(tmp_path / f"x{suffix}", link))
        assert edge["rate_bps"] == pytest.approx(rate_bps, rel=1e-12)
        assert edge["delay_s"] == pytest.approx(delay_s, rel=1e-12)
        assert edge.get("weight") == link.get("weight")
        assert found == []

    @pytest.mark.parametrize("suffix", [".graphml", ".gml", ".json"])
    def test_units_of_fnss(self, tmp_path, suffix):
        """FNSS states units once, as attributes of the graph."""
        units = {"capacity_unit": "Mbps", "delay_unit": "ms", "distance_unit": "Km"}
        link = {"capacity": 40, "delay": 1.5, "length": 12, "weight": 1}
        edge, found = read_link(write_link(tmp_path / f"x{suffix}", link, units))
        assert edge == {"rate_bps": 40e6, "delay_s": 0.0015, "weight": 1.0}
        assert found == []
        edge, _ = read_link(write_link(tmp_path / f"x{suffix}", {"capacity": 40, "length": 12}, units))
        assert edge["delay_s"] == pytest.approx(12e3 / FIBRE_M_S)

    def test_graph_of_fnss_in_python(self, tmp_path):
        graph = nx.Graph(capacity_unit="Mbps", delay_unit="ms")
        graph.add_node("S", role="server", x_m=0, y_m=0)
        graph.add_node("T", role="tower", x_m=9, y_m=0)
        graph.add_edge("S", "T", capacity=40, delay=1.5)
        fields = File.from_object({"graph": graph, "placement": AT_TOWERS})
        layout = File(**{key: value for key, value in fields.items() if key != "kind"}).open(2, STREAMS)
        assert layout.graph.edges["server", "tower:T"] == {"rate_bps": 40e6, "delay_s": 0.0015}

    @pytest.mark.parametrize(
        ("link", "graph", "problem", "remedy"),
        [
            ({"capacity": 1000}, {}, "capacity 1000 has no unit", "capacity_mbps"),
            ({"rate_bps": 1e6, "latency": 5}, {}, "latency 5 has no unit", "write a quantity such as"),
            ({"rate_bps": 1e6, "length": "12"}, {}, "length '12' has no unit", "write a quantity such as"),
            ({"capacity": 40}, {"capacity_unit": "furlong"}, "capacity_unit 'furlong' is no unit of rate", "write"),
            ({"capacity": "fast"}, {}, "capacity 'fast' is not a number with a unit", "write numbers in the unit"),
            ({"capacity": "5 ms"}, {}, "capacity '5 ms' is a value in ms instead of a bit rate", "write numbers"),
            ({"capacity": "1 Gbps", "bandwidth": "1 kbps"}, {}, "capacity 1 Gbps and bandwidth 1 kbps contradict each",
             "leave all but one out"),
            ({"LinkSpeedRaw": 1e9, "LinkSpeed": "10", "LinkSpeedUnits": "G"}, {},
             "LinkSpeedRaw 1000000000.0 and LinkSpeed 10 contradict", "leave all but one out"),
            ({"LinkSpeedRaw": 1e9, "LinkLabel": "10 Gbps"}, {}, "LinkSpeedRaw 1000000000.0 and LinkLabel", "leave all"),
            ({"rate_bps": 1e9, "delay_s": 0.02, "delay": "10 ms"}, {}, "delay_s 0.02 and delay 10 ms contradict", ""),
        ],
    )  # fmt: skip
    def test_contradictions_and_missing_units(self, tmp_path, link, graph, problem, remedy):
        path = write_link(tmp_path / "x.json", link, graph)
        fault = open_fault(path, rate="1 Mbps")
        assert fault.key == "file"
        assert fault.problem.startswith(f"link S – T: {problem}")
        assert remedy in fault.remedy

    @pytest.mark.parametrize("suffix", [".graphml", ".gml", ".json", ".edges"])
    def test_unknown_attributes_are_named(self, tmp_path, suffix):
        link = {"capacity": "1 Gbps", "packetLoss": 0.1, "jitter": "2 ms", "rtt": "30 ms", "buffer": 20}
        _, found = read_link(write_link(tmp_path / f"x{suffix}", link))
        text = f"x{suffix} has attributes of links that are not read: buffer (1), jitter (1), packetLoss (1), rtt (1); "
        (warning,) = found
        assert warning.startswith(text)

    def test_unknown_attributes_of_nodes_are_named(self, tmp_path):
        node = {"x": 3.0, "y": 4.0, "cores": 8, "Country": "Austria", "Internal": 1}
        _, (warning,) = read_link(write_link(tmp_path / "x.json", {"rate_bps": 1}, node=node))
        assert warning.startswith("x.json has attributes of nodes that are not read: cores (1), x (1), y (1); rename")

    @pytest.mark.parametrize(
        ("node", "expected"),
        [
            ({"x_m": None, "y_m": None, "X_km": 1.5, "y_km": "0.02"}, [1500.0, 20.0]),
            ({"x_m": 1500, "X_km": 1.5, "y_m": 20}, [1500.0, 20.0]),
        ],
    )
    def test_positions_in_kilometres(self, tmp_path, node, expected):
        path = write_link(tmp_path / "x.json", {"rate_bps": 1}, node=node)
        assert position(open_file(path), "tower:T") == expected

    def test_role_in_any_case(self, tmp_path):
        path = write_link(tmp_path / "x.json", {"rate_bps": 1}, node={"role": None, "Role": "Tower"})
        assert "tower:T" in open_file(path).names


class TestAttributes:
    """Attributes of nodes and links are numbers, or quantities, or errors."""

    @staticmethod
    def open_json(tmp_path, node=(), link=(), **overrides):
        path = tmp_path / "x.json"
        nodes = [
            {"id": "S", "role": "server", "x_m": 0, "y_m": 0},
            {"id": "T", "role": "tower", "x_m": 1000, "y_m": 0} | dict(node),
        ]
        links = [{"source": "S", "target": "T", "rate_bps": 1e9} | dict(link)]
        path.write_text(json.dumps({"nodes": nodes, "links": links}))
        layout = open_file(path, **overrides)
        return layout.graph.edges["server", "tower:T"], position(layout, "tower:T")

    @pytest.mark.parametrize(
        ("link", "rate_bps", "delay_s"),
        [
            ({"delay_s": "10 ms"}, 1e9, 0.01),
            ({"delay_s": "0.01"}, 1e9, 0.01),
            ({"delay": "10 ms"}, 1e9, 0.01),
            ({"delay_s": 0.02, "delay": "20 ms"}, 1e9, 0.02),
            ({"length_m": "2 km"}, 1e9, 2000 / FIBRE_M_S),
            ({"rate_bps": "1 Mbps"}, 1e6, 1000 / FIBRE_M_S),
            ({"rate_bps": None, "rate": "1 Mbps"}, 1e6, 1000 / FIBRE_M_S),
            ({"rate_bps": "", "LinkSpeed": "155", "LinkSpeedUnits": "M"}, 155e6, 1000 / FIBRE_M_S),
            ({"rate_bps": None, "LinkSpeed": "155", "LinkSpeedUnits": "Mbps"}, 155e6, 1000 / FIBRE_M_S),
        ],
    )
    def test_links(self, tmp_path, link, rate_bps, delay_s):
        edge, _ = self.open_json(tmp_path, link=link)
        assert edge == {"rate_bps": rate_bps, "delay_s": pytest.approx(delay_s, rel=1e-12)}

    def test_position_can_be_a_quantity(self, tmp_path):
        assert self.open_json(tmp_path, {"x_m": "1.5 km", "y_m": "20"})[1] == [1500.0, 20.0]

    @pytest.mark.parametrize(
        ("node", "link", "problem"),
        [
            ({}, {"delay_s": "fast"}, "link S – T: delay_s 'fast' is not a number with a unit"),
            ({}, {"delay_s": "10 m"}, "link S – T: delay_s '10 m' is a value in m instead of a time"),
            ({}, {"delay_s": True}, "link S – T: delay_s True is not"),
            ({}, {"delay_s": [1]}, "link S – T: delay_s [1] is not"),
            ({}, {"delay_s": "1,5"}, "link S – T: delay_s '1,5' is not"),
            ({}, {"delay": 10}, "link S – T: delay 10 has no unit"),
            ({}, {"rate_bps": None, "rate": "5"}, "link S – T: rate '5' has no unit"),
            ({}, {"rate_bps": "fast"}, "link S – T: rate_bps 'fast' is not"),
            ({}, {"rate_bps": None, "LinkSpeed": "<10", "LinkSpeedUnits": "G"}, "link S – T: LinkSpeed '<10' is"),
            ({}, {"weight": "2 km"}, "link S – T: weight '2 km' is not"),
            ({"x_m": "left"}, {}, "node T: x_m 'left' is not"),
            ({"x_m": None}, {}, "node T: only one of x_m and y_m is given"),
            ({"lat": 50.0}, {}, "node T: only one of Latitude and Longitude is given"),
            ({"lat": "50 N", "lon": 1}, {}, "node T: lat '50 N' is not"),
            ({"id": "S"}, {}, "is not a json file: the node 'S' occurs 2 times"),
        ],
    )
    def test_other_attributes_are_rejected(self, tmp_path, node, link, problem):
        with pytest.raises(ScenarioError) as error:
            self.open_json(tmp_path, node, link)
        assert error.value.faults[0].problem.startswith(problem)

    SPEED = (
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><key id="r" for="node" attr.name="role" '
        'attr.type="string"/><key id="x" for="node" attr.name="x_m" attr.type="double"/><key id="y" for="node" '
        'attr.name="y_m" attr.type="double"/><key id="s" for="edge" attr.name="LinkSpeed" attr.type="string"/><key '
        'id="u" for="edge" attr.name="LinkSpeedUnits" attr.type="string"/><graph edgedefault="undirected"><node id="S">'
        '<data key="r">server</data><data key="x">0</data><data key="y">0</data></node><node id="T"><data key="r">tower'
        '</data><data key="x">9</data><data key="y">0</data></node><edge source="S" target="T"><data key="s">155</data>'
        '<data key="u"></data></edge></graph></graphml>'
    )

    def test_speed_without_a_unit_is_no_rate(self, tmp_path):
        path = tmp_path / "x.graphml"
        path.write_text(self.SPEED)
        model = File(file=path, placement=AT_TOWERS, rate="1 Mbps")
        assert model.open(2, STREAMS).graph.edges["server", "tower:T"]["rate_bps"] == 1e6
        assert [text.split(";")[0] for text in model.warnings()] == [
            "x.graphml has attributes of links that are not read: LinkSpeed (1)"
        ]
        assert "has no attribute rate_bps" in open_fault(path).problem

    @pytest.mark.parametrize(
        ("old", "new", "problem"),
        [
            (
                '<data key="y">0</data></node><node',
                '<data key="y">0</data><data key="y">1</data></node><node',
                "the key 'y'",
            ),
            ('<node id="T">', '<node id="S">', "the node 'S' occurs 2 times"),
            ('target="T"', 'target="U"', "a link to 'U', which is not a node"),
            ('id="y" for="node" attr.name="y_m"', 'id="y" for="node" attr.name="x_m"', "the name ('node', 'x_m')"),
        ],
    )
    def test_ambiguous_graphml_is_rejected(self, tmp_path, old, new, problem):
        assert old in self.SPEED
        path = tmp_path / "x.graphml"
        path.write_text(self.SPEED.replace(old, new, 1))
        assert f"is not a graphml file: {problem}" in open_fault(path).problem

    def test_repeated_key_of_json_is_rejected(self, tmp_path):
        path = tmp_path / "x.json"
        path.write_text(
            '{"nodes": [{"id": "S"}], "links": [{"source": "S", "target": "S", "rate_bps": 1, "rate_bps": 2}]}'
        )
        assert "the key 'rate_bps' occurs 2 times" in open_fault(path).problem

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            ("a b {'rate_bps': 1, 'rate_bps': 2}", "the attribute 'rate_bps' occurs 2 times"),
            ("a", "line 2 has only one node"),
            ("a b c", "line 2: 'c' is no attributes"),
            ("a b [1]", "line 2: '[1]' is no attributes"),
            ("a b {1: 2}", "is no attributes"),
            ("a b {'x': open('f')}", "is no attributes"),
        ],
    )
    def test_other_lines_of_edges_are_rejected(self, tmp_path, line, problem):
        path = tmp_path / "x.edges"
        path.write_text(f"a b\n{line}\n")
        assert problem in open_fault(path, server="a", towers="all", rate=1, ring=1).problem


NODES = {
    "core": {"role": "server", "position": [0, 0]},
    "hill": {"role": "router", "position": ["1 km", 0]},
    "mast": {"role": "tower", "position": ["1 km", "300 m"]},
}
LINKS = [{"between": ["mast", "hill"], "rate": "20 Mbps", "delay": "1 ms"}, {"between": ["hill", "core"], "weight": 2}]


def inline_problems(nodes=NODES, links=LINKS):
    with pytest.raises(ScenarioError) as error:
        Inline(nodes=nodes, links=links, placement=AT_TOWERS)
    return {fault.key.removeprefix("Inline."): (fault.problem, fault.remedy) for fault in error.value.faults}


class TestInline:
    def test_network_matches_definition(self):
        layout = Inline(nodes=NODES, links=LINKS, placement=AT_TOWERS).open(10, STREAMS)
        assert (layout.server, layout.towers, layout.with_role("router")) == ("core", ("mast",), ("hill",))
        assert layout.graph.edges["mast", "hill"] == {"rate_bps": 2e7, "delay_s": 0.001}
        assert layout.graph.edges["hill", "core"]["weight"] == 2.0
        assert layout.route("mast") == ("mast", "hill", "core")
        assert (layout.distance_m <= 100).all()

    def test_unknown_ends_are_rejected(self):
        problems = inline_problems(links=[*LINKS, {"between": ["mast", "hull"]}])
        assert problems == {"links.2.between": ("no such node", "did you mean 'hill'?")}

    def test_one_server_and_a_tower_are_required(self):
        assert "nodes" in inline_problems({"a": NODES["hill"], "mast": NODES["mast"]}, [{"between": ["a", "mast"]}])
        assert (
            inline_problems({**NODES, "core2": NODES["core"]})["nodes.core2.role"][0] == "a second server, beside core"
        )
        assert "no node is a tower" in inline_problems({"core": NODES["core"]}, [])["nodes"][0]

    def test_tower_without_route_is_reported_with_nearest_node(self):
        problems = inline_problems(links=LINKS[1:])
        assert problems["nodes.mast"][0] == "this tower has no route to the server"
        assert problems["nodes.mast"][1].endswith("the nearest is hill")

    def test_loops_and_duplicate_links_are_rejected(self):
        problems = inline_problems(links=[*LINKS, {"between": ["hill", "hill"]}, {"between": ["core", "hill"]}])
        assert problems["links.2.between"][0] == "a link from a node to itself"
        assert problems["links.3.between"][0] == "the same ends as links.1"

    @pytest.mark.parametrize("name", ["7", "a-b", "", "a.b"])
    def test_ambiguous_names_are_rejected(self, name):
        assert inline_problems({**NODES, name: NODES["hill"]})

    def test_all_errors_are_reported(self):
        assert len(inline_problems({**NODES, "core2": NODES["core"]}, [{"between": ["x", "mast"]}])) == 2
