"""Networks that are written down: in the scenario, and in files of four formats."""

import math
from pathlib import Path

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


def opened(name, **said):
    return File(file=DATA / name, placement=AT_TOWERS, **said).open(20, STREAMS)


def fault_of(name, **said):
    with pytest.raises(ScenarioError) as caught:
        opened(name, **said)
    (fault,) = caught.value.faults
    told = File(file=DATA / name, placement=AT_TOWERS, **said).faults(ScenarioFacts(users=20, rounds=1))
    assert [*told] == [fault]
    return fault


def place(sites, name):
    return sites.node_xy_m[sites.number(name)].tolist()


class TestFormats:
    def test_graphml_with_all_attributes(self):
        sites = opened("valley.graphml")
        assert sites.names == ("server", "router:pass", "tower:mast")
        assert sites.graph.edges["server", "router:pass"] == {"rate_bps": 1e8, "delay_s": 0.002, "weight": 3.0}
        link = sites.graph.edges["router:pass", "tower:mast"]
        assert link == {"rate_bps": 1e7, "delay_s": pytest.approx(50 / FIBRE_M_S)}
        assert place(sites, "tower:mast") == [100.0, 50.0]
        assert (sites.distance_m <= 100.0).all()

    def test_node_link_json(self):
        sites = opened("nodelink.json")
        assert sites.names == ("server", "tower:mast")
        assert sites.graph.edges["server", "tower:mast"]["delay_s"] == pytest.approx(500 / FIBRE_M_S)

    def test_an_edge_list_on_a_circle(self):
        sites = opened("plain.edges", server="b", towers="degree_one", ring="1 km", rate="1 Mbps")
        assert set(sites.towers) == {"tower:a", "tower:c", "tower:d"}
        assert sites.graph.edges["server", "tower:c"]["delay_s"] == 0.25
        assert math.hypot(*place(sites, "tower:a")) == pytest.approx(1000.0)

    def test_positions_from_the_scenario_and_the_mean_of_neighbours(self):
        said = {"a": [0, 0], "c": [300, 0], "d": ["0 m", "0.6 km"]}
        sites = opened("plain.edges", server="b", towers=["c"], rate=1e6, positions=said)
        assert place(sites, "server") == pytest.approx([100.0, 200.0])
        assert place(sites, "router:d") == [0.0, 600.0]

    def test_the_format_can_be_said(self, tmp_path):
        path = tmp_path / "network.data"
        path.write_text((DATA / "valley.graphml").read_text())
        model = File(file=path, format="graphml", placement=AT_TOWERS)
        assert len(model.open(1, STREAMS).names) == 3
        with pytest.raises(ScenarioError, match=r"the suffix '.data' has no known format.*; set format"):
            File(file=path, placement=AT_TOWERS).open(1, STREAMS)


class TestTopologyZoo:
    SITES = opened("zoo.gml", server="Wien", towers="all", rate="100 Mbps")

    def test_labels_that_repeat_have_their_ids_behind_them(self):
        assert self.SITES.names == ("server", "tower:Graz", "tower:Exchange#2", "tower:Exchange#3")
        fault = fault_of("zoo.gml", server="Exchange", towers="all", rate=1)
        assert fault.remedy == "several nodes have this label: Exchange#2, Exchange#3"

    def test_of_parallel_links_the_fastest_is_kept(self):
        assert self.SITES.graph.edges["server", "tower:Graz"]["rate_bps"] == 10e9

    def test_link_speeds_with_units_and_the_default_for_the_rest(self):
        edges = self.SITES.graph.edges
        assert edges["server", "tower:Exchange#2"]["rate_bps"] == 622e6
        assert edges["tower:Graz", "tower:Exchange#2"]["rate_bps"] == 1e8
        assert edges["server", "tower:Exchange#3"]["rate_bps"] == 1e8

    def test_a_node_without_coordinates_stands_between_its_neighbours(self):
        ends = np.array([place(self.SITES, name) for name in ("server", "tower:Graz")])
        assert place(self.SITES, "tower:Exchange#2") == pytest.approx(ends.mean(axis=0).tolist())

    def test_delays_are_great_circles_through_fibre(self):
        """Vienna to Graz is 145 km by road maps' straight line."""
        delay_s = self.SITES.graph.edges["server", "tower:Graz"]["delay_s"]
        assert delay_s * FIBRE_M_S == pytest.approx(145e3, rel=0.01)

    def test_distances_in_the_plane_are_those_on_the_globe(self):
        ends = [place(self.SITES, name) for name in ("server", "tower:Exchange#3")]
        told = great_circle_m((48.20849, 16.37208), (47.79941, 13.04399))
        assert math.dist(*ends) == pytest.approx(told, rel=0.01)

    def test_a_missing_rate_names_the_link_the_attributes_and_what_to_set(self):
        fault = fault_of("zoo.gml", server="Wien", towers="all")
        assert fault.key == "rate"
        assert fault.problem.startswith("link Wien – Exchange#3 has no attribute rate_bps, LinkSpeedRaw")
        assert fault.remedy == "set rate for links without one"


class TestGlobe:
    def test_well_known_distances(self):
        """A degree of the meridian of a sphere of 6371.0088 km; Berlin to Tokyo is some 8,920 km."""
        assert great_circle_m((10, 20), (11, 20)) == pytest.approx(111_195.08, abs=0.1)
        assert great_circle_m((52.5200, 13.4050), (35.6762, 139.6503)) == pytest.approx(8.92e6, rel=0.005)

    def test_the_date_line_does_not_tear_a_network_apart(self):
        places = project({"Suva": (-18.0, 178.5), "Apia": (-14.0, -171.8)})
        assert math.dist(*places.values()) == pytest.approx(great_circle_m((-18.0, 178.5), (-14.0, -171.8)), rel=0.01)


class TestFaultsOfFiles:
    def test_no_server(self):
        fault = fault_of("zoo.gml", towers="all", rate=1)
        assert (fault.key, fault.problem) == ("server", "no node has the attribute role: server")
        assert "Wien, Graz" in fault.remedy

    def test_no_tower(self):
        fault = fault_of("zoo.gml", server="Wien", rate=1)
        assert (fault.key, fault.problem) == ("towers", "no node has the attribute role: tower")

    def test_a_name_that_is_nearly_one(self):
        fault = fault_of("zoo.gml", server="Vien", towers="all", rate=1)
        assert (fault.key, fault.value, fault.remedy) == ("server", "Vien", "did you mean 'Wien'?")
        assert fault_of("valley.graphml", towers=["mist"]).remedy == "did you mean 'mast'?"

    def test_no_coordinates(self):
        fault = fault_of("plain.edges", server="b", towers="all", rate=1)
        assert fault.problem == "no position is known for a and 3 more nodes"
        assert "Latitude and Longitude" in fault.remedy

    def test_no_file_but_a_similar_one(self):
        fault = fault_of("zoo.gmk", server="Wien", format="gml")
        assert "No such file" in fault.problem
        assert fault.remedy == "did you mean 'zoo.gml'?"

    def test_towers_that_are_not_joined_to_the_server(self, tmp_path):
        path = tmp_path / "split.edges"
        path.write_text("a b\nc d\n")
        fault = fault_of(path, server="a", towers="all", rate=1, ring=1)
        assert fault.problem == "no path connects c, d to a"

    @pytest.mark.parametrize(
        ("name", "text", "told"),
        [
            ("x.graphml", "<graphml", "is not a graphml file"),
            ("x.graphml", '<!DOCTYPE g [<!ENTITY a "b">]><graphml/>', "which is not supported"),
            ("x.gml", "graph [ node [ ] ]", "is not a gml file"),
            ("x.gml", "", "is not a gml file"),
            ("x.json", "[1, 2]", "is not a json file"),
            ("x.json", '{"nodes": [{"id": 1}], "links": [{"source": 1, "target": 7}]}', "7, which is not a node"),
            ("x.json", "[" * 100_000, "is not a json file"),
            ("x.edges", "", "it has no nodes"),
            ("x.json", '{"nodes": [{"id": 1, "role": "boss"}], "links": []}', "has the role 'boss'"),
            ("x.json", '{"nodes": [{"id": 1, "lat": 95, "lon": 0, "role": "server"}], "links": []}', "no node has"),
        ],
    )
    def test_broken_files_are_one_clear_fault(self, tmp_path, name, text, told):
        (tmp_path / name).write_text(text)
        fault = fault_of(tmp_path / name)
        assert told in fault.problem
        assert fault.remedy

    def test_a_link_with_an_impossible_rate(self, tmp_path):
        (tmp_path / "x.edges").write_text("a b {'rate_bps': -1}")
        fault = fault_of(tmp_path / "x.edges", server="a", towers="all", ring=1)
        assert "link a – b has rate_bps -1" in fault.problem


NODES = {
    "core": {"role": "server", "position": [0, 0]},
    "hill": {"role": "router", "position": ["1 km", 0]},
    "mast": {"role": "tower", "position": ["1 km", "300 m"]},
}
LINKS = [{"between": ["mast", "hill"], "rate": "20 Mbps", "delay": "1 ms"}, {"between": ["hill", "core"], "weight": 2}]


def wrong(nodes=NODES, links=LINKS):
    with pytest.raises(ScenarioError) as caught:
        Inline(nodes=nodes, links=links, placement=AT_TOWERS)
    return {fault.key.removeprefix("Inline."): (fault.problem, fault.remedy) for fault in caught.value.faults}


class TestInline:
    def test_the_network_is_as_it_is_written(self):
        sites = Inline(nodes=NODES, links=LINKS, placement=AT_TOWERS).open(10, STREAMS)
        assert (sites.server, sites.towers, sites.with_role("router")) == ("core", ("mast",), ("hill",))
        assert sites.graph.edges["mast", "hill"] == {"rate_bps": 2e7, "delay_s": 0.001}
        assert sites.graph.edges["hill", "core"]["weight"] == 2.0
        assert sites.route("mast") == ("mast", "hill", "core")
        assert (sites.distance_m <= 100).all()

    def test_ends_that_are_no_nodes(self):
        faults = wrong(links=[*LINKS, {"between": ["mast", "hull"]}])
        assert faults == {"links.2.between": ("no such node", "did you mean 'hill'?")}

    def test_no_server_two_servers_no_tower(self):
        assert "nodes" in wrong({"a": NODES["hill"], "mast": NODES["mast"]}, [{"between": ["a", "mast"]}])
        assert wrong({**NODES, "core2": NODES["core"]})["nodes.core2.role"][0] == "a second server, beside core"
        assert "no node is a tower" in wrong({"core": NODES["core"]}, [])["nodes"][0]

    def test_a_tower_without_a_route_and_the_nearest_node_that_has_one(self):
        faults = wrong(links=LINKS[1:])
        assert faults["nodes.mast"][0] == "this tower has no route to the server"
        assert faults["nodes.mast"][1].endswith("the nearest is hill")

    def test_loops_and_links_told_twice(self):
        faults = wrong(links=[*LINKS, {"between": ["hill", "hill"]}, {"between": ["core", "hill"]}])
        assert faults["links.2.between"][0] == "a link from a node to itself"
        assert faults["links.3.between"][0] == "the same ends as links.1"

    @pytest.mark.parametrize("name", ["7", "a-b", "", "a.b"])
    def test_names_that_would_be_taken_for_something_else(self, name):
        assert wrong({**NODES, name: NODES["hill"]})

    def test_all_faults_at_once(self):
        assert len(wrong({**NODES, "core2": NODES["core"]}, [{"between": ["x", "mast"]}])) == 2
