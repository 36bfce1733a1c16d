//! Clusters of test hosts, asked with stock kubectl. One cluster with two nodes
//! serves all scenarios in turn; after it, nothing may be left on the machine.
//!
//! A scenario is a function in a file of its own under `scenarios/`, listed
//! here. `cargo test --package tests --test e2e -- NAME` runs those whose names
//! contain NAME; those of [`BY_NAME`] run only so.

use std::{process::ExitCode, time::Instant};

use tests::{
    Cluster, Failure, ensure, eventually, logs,
    machine::Traces,
    report::{Outcome, Report},
};

mod scenarios;

/// Its name, what runs, and a word of those lines of the programs' logs that are about it.
type Scenario = (
    &'static str,
    fn(&Cluster) -> Result<(), Failure>,
    &'static str,
);

/// What runs against the cluster, in order; those that break things come last.
const SCENARIOS: &[Scenario] = &[
    (
        "kubectl_reads_and_describes",
        scenarios::reading::run,
        "apiserver",
    ),
    (
        "apply_twice_changes_nothing",
        scenarios::apply::run,
        "apiserver",
    ),
    (
        "deployment_scales_updates_and_goes_back",
        scenarios::rollout::run,
        "controllers",
    ),
    (
        "containers_restart_and_pods_are_replaced",
        scenarios::replace::run,
        "node_agent_pods",
    ),
    ("logs_and_exec", scenarios::exec::run, "streams"),
    (
        "services_and_dns_from_pods",
        scenarios::services::run,
        "dns",
    ),
    (
        "policy_lets_friends_in_and_nobody_else",
        scenarios::policy::run,
        "policy",
    ),
    (
        "connectivity_test_passes_and_shows_a_fault",
        scenarios::connectivity::run,
        "node_agent",
    ),
    (
        "manifests_are_accepted_and_queries_find_their_metrics",
        scenarios::deploy::run,
        "apiserver",
    ),
    (
        "prometheus_answers_every_query_of_rules_and_dashboards",
        scenarios::prometheus::run,
        "apiserver",
    ),
    (
        "why_says_where_two_nodes_differ",
        scenarios::why::run,
        "policy",
    ),
    (
        "a_load_balancer_address_outlives_its_node",
        scenarios::load_balancer::run,
        "announce",
    ),
    (
        "configuration_reaches_containers",
        scenarios::volumes::run,
        "volume",
    ),
    (
        "namespace_is_deleted_with_all_in_it",
        scenarios::namespace::run,
        "controllers",
    ),
    (
        "attack_by_a_stolen_node_gets_no_further",
        scenarios::attack::node::run,
        "apiserver",
    ),
    (
        "attack_by_a_hostile_pod_harms_nobody_else",
        scenarios::attack::pod::run,
        "node_agent",
    ),
    (
        "traffic_and_rollout_survive_kill_9",
        scenarios::crash::run,
        "starting",
    ),
    (
        "pods_do_not_notice_a_runtime_that_hangs",
        scenarios::hang::run,
        "node_agent_pods",
    ),
    (
        "pods_do_not_notice_one_that_takes_all_processes_it_may",
        scenarios::tasks::run,
        "node_agent_pods",
    ),
    (
        "a_full_disk_loses_nothing",
        scenarios::disk::run,
        "node_agent_pods",
    ),
    (
        "a_claim_brings_a_device_of_a_real_driver",
        scenarios::claims::run,
        "dra",
    ),
    (
        "kubelet_and_agent_take_over_from_each_other",
        scenarios::adoption::run,
        "adopt",
    ),
    (
        "nothing_is_left_of_pods_when_programs_are_killed",
        scenarios::leaks::run,
        "adopt",
    ),
    (
        "local_volumes_keep_data_sizes_and_no_leftovers",
        scenarios::local_volumes::run,
        "volume",
    ),
    (
        "a_database_of_a_chart_comes_up_rolls_and_heals",
        scenarios::charts::run,
        "controllers",
    ),
    (
        "clients_do_not_notice_the_loss_of_a_server",
        scenarios::servers::run,
        "etcd",
    ),
    (
        "servers_and_nodes_are_upgraded_and_rolled_back_under_load",
        scenarios::upgrade::run,
        "apiserver",
    ),
    (
        "kube_proxy_is_replaced_and_gets_services_back",
        scenarios::migration::run,
        "node_agent",
    ),
    (
        "kube_proxy_in_mode_iptables_is_replaced_and_gets_services_back",
        scenarios::migration::run_iptables,
        "node_agent",
    ),
    (
        "kube_proxy_of_k3s_is_replaced_and_gets_services_back",
        scenarios::migration::run_k3s,
        "node_agent",
    ),
];

/// Scenarios of minutes, with programs that others do not need.
const BY_NAME: &[Scenario] = &[
    (
        "kubeadm_cluster_is_migrated_and_gets_services_back",
        scenarios::migration::run_kubeadm,
        "node_agent",
    ),
    (
        "kubeadm_cluster_in_mode_nftables_is_migrated_and_gets_services_back",
        scenarios::migration::run_kubeadm_nftables,
        "node_agent",
    ),
    (
        "addresses_of_metallb_are_taken_over_and_given_back",
        scenarios::metallb::run,
        "announce",
    ),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--list") {
        for (name, ..) in SCENARIOS.iter().chain(BY_NAME) {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    let mut skip_next = false;
    let filters: Vec<&String> = words
        .iter()
        .filter(|word| {
            let value = std::mem::replace(&mut skip_next, *word == "--test-threads");
            !value && !word.starts_with("--")
        })
        .collect();
    let named =
        |(name, ..): &&Scenario| filters.iter().any(|filter| name.contains(filter.as_str()));
    let others = SCENARIOS
        .iter()
        .filter(|it| filters.is_empty() || named(it));
    let chosen: Vec<_> = others.chain(BY_NAME.iter().filter(named)).collect();
    let mut report = Report::default();
    let names = chosen.iter().map(|(name, ..)| *name);
    if chosen.is_empty() {
        // Nothing to bring a cluster up for.
    } else if !nix::unistd::geteuid().is_root() {
        let missing = "clusters need root for namespaces, control groups and eBPF";
        report.skip_all(names, missing);
    } else if tests::kubectl_program().is_none() {
        report.skip_all(names, &tests::no_stock_program("KUBECTL", "kubectl"));
    } else {
        run(&chosen, &mut report);
    }
    report.end()
}

fn run(chosen: &[&Scenario], report: &mut Report) {
    let before = Traces::now();
    let dir = match tempfile::tempdir() {
        Ok(dir) => dir,
        Err(error) => {
            report.record("up", Instant::now(), Err(error.into()));
            return;
        }
    };
    let started = Instant::now();
    match Cluster::up(&dir.path().join("cluster"), 2, true) {
        Ok(cluster) => {
            report.record("up_shows_the_main_job", started, Ok(()));
            for (name, scenario, subject) in chosen {
                let started = Instant::now();
                let result = scenario(&cluster);
                if report.record(name, started, result) == Outcome::Failed {
                    print!("{}", logs::last(&cluster.dir, subject));
                }
            }
            let started = Instant::now();
            let result = cluster.down().and_then(|()| {
                // Other programs of the machine come and go, too.
                eventually("nothing left behind", 5, || {
                    let left = Traces::now().since(&before);
                    let first = left.iter().take(20).cloned().collect::<Vec<_>>();
                    let shown = first.join(", ");
                    ensure(
                        left.is_empty(),
                        format!("{} left behind, of which: {shown}", left.len()),
                    )
                })
            });
            report.record("down_leaves_nothing", started, result);
        }
        Err(error) => {
            report.record("up_shows_the_main_job", started, Err(error));
        }
    }
}
