"""Move tests so that they mirror the tree of netfl, and their helpers into tests/support.  May be run again after a merge."""

import re
import subprocess
from pathlib import Path

HELPERS = {
    "small": "small_network", "tiny": "tiny_scenarios", "toys": "listening_models", "worlds": "random_scenarios",
    "swept": "inline_sweep_engine", "stopping": "stop_run", "recorders": "recorders", "readers": "file_readers",
    "reader_seeds": "file_reader_seeds", "own_data": "plugin_data", "own_learning": "plugin_learning",
    "own_modules": "plugin_modules", "guides": "doc_pages", "faults": "disk_faults", "exported": "exported_runs",
    "draws": "draw_counts", "chromium": "chromium", "slow_toys": "slow_access", "round_reference": "round_reference",
    "trace_events": "trace_event_format", "invariants": "run_invariants", "learning/papers": "paper_algorithms",
    "learning/schools": "learner_factory", "network/dcf_reference": "dcf_reference",
}  # fmt: skip
TESTS = """
test_asynchronous -> simulation/test_asynchronous
test_asynchronous_more -> simulation/test_asynchronous_versions
test_availability -> network/outage/test_availability_file
test_axes -> scenario/test_sweep_axes
test_catalogue -> cli/test_model_list
test_cli -> cli/test_commands
test_closed_loop -> simulation/test_closed_loop
test_completing -> cli/test_completion
test_coupling -> simulation/test_run
test_degenerate -> simulation/test_degenerate
test_distribution -> cli/test_distribution
test_document -> scenario/test_yaml_document
test_duration -> simulation/test_duration
test_explaining -> diagnosis/test_loss_attribution
test_explanation -> diagnosis/test_attribution_result
test_exporting -> results/export/test_trace_events
test_exporting_tables -> results/export/test_tables
test_extending -> simulation/test_extend
test_full_disk -> simulation/test_full_disk
test_laws -> testing/test_laws
test_lock -> results/test_locking
test_new -> cli/test_scaffold
test_one_statistic -> report/test_one_statistic
test_overload -> network/mac/test_overload
test_plots -> plots/test_plots
test_recording -> results/test_run_writer
test_rehearsing -> simulation/test_dry_run
test_reproducible -> results/test_digests
test_running -> cli/test_run
test_scenario -> scenario/test_scenario
test_schema -> scenario/test_json_schema
test_shipped -> scenario/test_examples
test_staging -> simulation/test_setup
test_statistics -> results/test_statistics
test_survival -> simulation/test_crashes
test_sweeping -> sweeps/test_sweeps
test_sweeping_ray -> sweeps/test_ray_engine
test_tracking -> results/test_tracking
test_version -> cli/test_version_info
test_versionfile -> results/test_model_snapshots
test_watching -> cli/test_progress
test_workload -> simulation/test_cost_estimate
diagnosis/test_floor -> diagnosis/test_noise_floor
diagnosis/test_gain -> diagnosis/test_attribution_gain
diagnosis/test_order -> diagnosis/test_memory
diagnosis/test_ram -> cli/test_ram
diagnosis/test_reach -> diagnosis/test_cvar_reach
diagnosis/test_spectrum -> diagnosis/test_periodicity
diagnosis/test_stays -> diagnosis/test_run_lengths
diagnosis/test_waits -> diagnosis/test_age_of_information
access/test_selection -> access/selection/test_selections
access/test_selection_choice -> access/selection/test_power_of_choice
access/test_selection_reference -> access/selection/test_reference
access/test_selection_runs -> access/selection/test_runs
access/test_spare -> network/test_counterfactual
access/test_stated -> access/test_stated_properties
access/test_zipf -> network/test_rates
access/test_network_timed -> access/test_network_times
learning/test_answers -> learning/test_queries
learning/test_aggregation -> learning/aggregation/test_aggregation
learning/test_aggregation_limits -> learning/aggregation/test_limits
learning/test_aggregation_memory -> learning/aggregation/test_memory
learning/test_aggregation_rules -> learning/aggregation/test_rules
learning/test_batches -> learning/test_minibatches
learning/test_channel -> learning/workers/test_messages
learning/test_choosing -> learning/test_model_selection
learning/test_data -> learning/data/test_data
learning/test_data_documents -> learning/data/test_documents
learning/test_data_images -> learning/data/test_images
learning/test_data_own -> learning/data/test_user_files
learning/test_data_users -> learning/data/test_user_data
learning/test_exact -> learning/test_exact_updates
learning/test_known_participation -> learning/aggregation/test_known_participation
learning/test_model -> learning/model/test_model
learning/test_model_documents -> learning/model/test_documents
learning/test_model_fits -> learning/model/test_fits
learning/test_model_learning -> learning/model/test_learning
learning/test_model_stacks -> learning/model/test_batched
learning/test_objective -> learning/objective/test_objective
learning/test_partition -> learning/partition/test_partition
learning/test_partition_coupled -> learning/partition/test_coupled
learning/test_partition_mixes -> learning/partition/test_mixes
learning/test_parts -> learning/workers/test_sharding
learning/test_schedule -> learning/schedule/test_schedule
learning/test_team -> learning/workers/test_pool
learning/test_trial -> learning/test_plugin_check
learning/test_ways -> learning/test_batch_limits
network/test_3gpp -> network/channel/test_tr38901
network/test_batch -> network/backhaul/test_fast_path
network/test_battery -> network/outage/test_battery
network/test_block_fading -> network/channel/test_block_fading
network/test_both -> network/radio/test_tx_queue
network/test_calendar -> network/outage/test_calendar
network/test_cell -> network/radio/test_cell
network/test_channel -> network/channel/test_channel
network/test_crossing -> network/outage/test_battery_crossing
network/test_csma -> network/mac/test_csma_ca
network/test_csma_updates -> network/mac/test_csma_ca_updates
network/test_disaster -> network/outage/test_disaster
network/test_diurnal -> network/outage/test_diurnal
network/test_doppler -> network/channel/test_doppler
network/test_downlink_reference -> network/test_downlink
network/test_fading -> network/channel/test_fading
network/test_flight -> network/radio/test_transmission
network/test_inactivity -> network/outage/test_inactivity
network/test_long_frames -> network/reception/test_long_frames
network/test_lora_interference -> network/reception/test_lora_interference
network/test_mac -> network/mac/test_mac
network/test_mac_adaptive -> network/mac/test_adaptive_aloha
network/test_mac_aloha -> network/mac/test_slotted
network/test_mac_free -> network/mac/test_unslotted
network/test_mac_lora -> network/mac/test_lora
network/test_mac_lorawan -> network/mac/test_lorawan
network/test_mac_turns -> network/mac/test_scheduled
network/test_maintenance -> network/outage/test_maintenance
network/test_markov_channel -> network/channel/test_markov
network/test_medium -> network/radio/test_medium
network/test_meter -> network/test_counters
network/test_motion -> network/motion/test_motion
network/test_outage -> network/outage/test_outage
network/test_outage_availability -> network/outage/test_availability
network/test_outages -> network/outage/test_combined
network/test_packets -> network/radio/test_packet_queue
network/test_path_loss -> network/channel/test_path_loss
network/test_placement -> network/placement/test_placement
network/test_port -> network/backhaul/test_port
network/test_queue -> network/queue/test_queue
network/test_reception -> network/reception/test_reception
network/test_regional -> network/outage/test_regional
network/test_relay -> network/queue/test_relay
network/test_round -> network/round/test_round
network/test_round_reference -> network/round/test_reference
network/test_routes -> network/backhaul/test_routes
network/test_routing -> network/routing/test_routing
network/test_sites -> network/test_layout
network/test_sources -> network/backhaul/test_traffic_sources
network/test_theory -> network/theory/test_theory
network/test_topology -> network/topology/test_topology
network/test_topology_files -> network/topology/test_files
network/test_topology_meshes -> network/topology/test_meshes
network/test_traffic -> network/traffic/test_traffic
network/test_transport -> network/transport/test_transport
network/test_underwater -> network/channel/test_underwater
network/test_world -> network/test_simulator
report/test_plots -> report/test_drawing
report/test_replay -> report/animation/test_data
report/test_replay_page -> report/animation/test_page
report/test_replay_travels -> report/animation/test_paths
"""
moves = {f"tests/{a}.py": f"tests/support/{b}.py" for a, b in HELPERS.items()}
for line in TESTS.strip().split("\n"):
    old, new = line.split(" -> ")
    moves[f"tests/{old}.py"] = f"tests/{new}.py"
modules = {old.rsplit("/", 1)[-1]: new for old, new in HELPERS.items()}
names = "|".join(sorted(modules, key=len, reverse=True))


def renamed(text: str, path: str) -> str:
    """The text of a test with helpers and paths as they are called now."""
    if path.endswith(".py"):
        text = re.sub(
            rf"^(\s*)from ({names}) import", lambda m: f"{m[1]}from support.{modules[m[2]]} import", text, flags=re.M
        )

        for old, new in {
            "from learning.schools import": "from support.learner_factory import",
            "from learning.papers import": "from support.paper_algorithms import",
            "from learning import papers\n": "from support import paper_algorithms as papers\n",
            "from test_laws import": "from testing.test_laws import",
            "from test_survival import": "from simulation.test_crashes import",
            "import reader_seeds as seeds": "from support import file_reader_seeds as seeds",
        }.items():
            text = text.replace(old, new)

        def whole(match):
            new = modules[match[2]]
            alias = "" if new == match[2] else f" as {match[2]}"
            return f"{match[1]}from support import {new}{alias}"

        text = re.sub(rf"^(\s*)import ({names})$", whole, text, flags=re.M)
        text = re.sub(
            r"(?<![\w.:])(own_data|own_learning|own_modules|toys|slow_toys):(?=[A-Z{]\w?)",
            lambda m: f"support.{modules[m[1]]}:",
            text,
        )
        text = re.sub(
            r"(?<=[\"'`\s(])(own_data|own_learning|own_modules|toys|slow_toys)\.(?=[A-Z]\w)",
            lambda m: (
                f"support.{modules[m[1]]}." if f"import {m[1]}" not in text and f"as {m[1]}" not in text else m[0]
            ),
            text,
        )
    for old, new in moves.items():
        text = text.replace(old, new)
    return text


def main() -> None:
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split()
    for name in listed:
        path = Path(name)
        if path.suffix not in {".py", ".md", ".toml", ".yaml", ".cff"} and path.name not in {"Makefile", "run"}:
            continue
        if name.startswith("tools/") or name == "CHANGELOG.md":
            continue
        if not path.exists():
            continue
        before = path.read_text()
        after = renamed(before, name)
        new = moves.get(name)
        if new is not None:
            deeper = new.count("/") - name.count("/")
            after = re.sub(
                r"(Path\(__file__\)(?:\.resolve\(\))?\.parents\[)(\d+)\]",
                lambda m: f"{m[1]}{int(m[2]) + deeper}]",
                after,
            )
            if deeper and name.startswith("tests/network/"):
                after = after.replace('Path(__file__).parent / "data"', 'Path(__file__).parents[1] / "data"')
        if after != before:
            path.write_text(after)
        if new is not None:
            Path(new).parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["git", "mv", name, new], check=True)


main()
