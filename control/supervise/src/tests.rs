use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::*;

/// Panics while fewer than `failures` runs were made, then runs for ever.
fn failing(
    failures: usize,
) -> (
    Arc<AtomicUsize>,
    impl FnMut() -> futures::future::BoxFuture<'static, ()>,
) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let make = move || {
        let run = counted.fetch_add(1, Ordering::SeqCst);
        let work: futures::future::BoxFuture<'static, ()> = Box::pin(async move {
            tokio::task::yield_now().await;
            assert!(run >= failures, "run {run} fails");
            std::future::pending::<()>().await;
        });
        work
    };
    (runs, make)
}

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_is_restarted_after_longer_and_longer_delays() {
    let supervisor = Supervisor::new();
    let (runs, make) = failing(3);
    let begun = tokio::time::Instant::now();
    let _running = supervisor.task("feeder").spawn_restarting(make);
    while runs.load(Ordering::SeqCst) < 4 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let took = begun.elapsed();
    assert!(
        took >= Duration::from_millis(700),
        "100, 200 and 400 ms: {took:?}"
    );
    tokio::time::sleep(Duration::from_millis(10)).await;
    let health = supervisor.health();
    assert_eq!(health.len(), 1);
    assert_eq!(health[0].state, State::Running);
    assert_eq!(health[0].restarts, 3);
    assert_eq!(
        health[0].last_error.as_deref(),
        Some("panicked: run 2 fails")
    );
    assert!(supervisor.unhealthy().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_task_that_waits_for_its_restart_is_unhealthy_and_not_up() {
    let supervisor = Supervisor::new();
    let (_, make) = failing(usize::MAX);
    let _running = supervisor
        .task("feeder")
        .detail("pods")
        .spawn_restarting(make);
    tokio::time::sleep(Duration::from_millis(50)).await;
    let unhealthy = supervisor.unhealthy();
    assert_eq!(unhealthy.len(), 1);
    assert_eq!(unhealthy[0].state, State::Restarting);
    assert_eq!(unhealthy[0].detail.as_deref(), Some("pods"));
    let mut page = String::new();
    supervisor.write_metrics(&mut page);
    assert!(
        page.contains("orlop_task_up{task=\"feeder\"} 0\n"),
        "{page}"
    );
    assert!(
        page.contains("orlop_task_restarts_total{task=\"feeder\"} 1\n"),
        "{page}"
    );
}

#[test]
fn the_delay_doubles_and_has_a_bound() {
    assert_eq!(delay(1), Duration::from_millis(100));
    assert_eq!(delay(4), Duration::from_millis(800));
    assert_eq!(delay(40), Duration::from_secs(30));
    assert_eq!(delay(u32::MAX), Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_returns_before_shutdown_is_restarted() {
    let supervisor = Supervisor::new();
    let shutdown = CancellationToken::new();
    let running = supervisor
        .task("follower")
        .until(&shutdown)
        .spawn_restarting(|| async {});
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(supervisor.restarts("follower") >= 3);
    shutdown.cancel();
    running.await;
    assert!(supervisor.health().is_empty());
}

#[tokio::test]
async fn a_task_without_shutdown_ends_well_by_returning() {
    let supervisor = Supervisor::new();
    supervisor
        .task("worker")
        .spawn_restarting(|| async {})
        .await;
    assert!(supervisor.health().is_empty());
    assert_eq!(supervisor.restarts("worker"), 0);
}

#[tokio::test]
async fn the_end_of_an_essential_task_is_a_failure_of_the_process() {
    let supervisor = Supervisor::new();
    assert_eq!(supervisor.failure(), None);
    let _running = supervisor.task("store").spawn_essential(async {
        tokio::task::yield_now().await;
        panic!("disk on fire")
    });
    let failure = supervisor.failed().await;
    assert_eq!(failure.to_string(), "task `store` panicked: disk on fire");
    assert_eq!(supervisor.failure(), Some(failure));
    // It stays visible.
    assert_eq!(supervisor.unhealthy()[0].state, State::Failed);
}

#[tokio::test]
async fn an_owner_gets_the_panic_of_its_task() {
    let supervisor = Supervisor::new();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(supervisor.task("part").owned(async { panic!("no") }));
    let ended: Result<(), _> = tasks.join_next().await.expect("one");
    assert!(ended.expect_err("a panic").is_panic());
    assert_eq!(supervisor.unhealthy()[0].name, "part");
}

#[tokio::test(start_paused = true)]
async fn every_task_can_be_made_to_panic_by_its_name() {
    let supervisor = Supervisor::new();
    for name in ["a", "b"] {
        let _running = supervisor.task(name).spawn_restarting(std::future::pending);
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    for name in supervisor.names() {
        assert_eq!(supervisor.panic(name), 1);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(supervisor.names(), ["a", "b"]);
    assert_eq!((supervisor.restarts("a"), supervisor.restarts("b")), (1, 1));
    assert_eq!(supervisor.panic("c"), 0);
}

#[tokio::test]
async fn tasks_of_a_task_belong_to_its_supervisor() {
    let supervisor = Supervisor::new();
    let shutdown = CancellationToken::new();
    let until = shutdown.clone();
    let outer = supervisor.task("outer").spawn_restarting(move || {
        let until = until.clone();
        async move {
            task("inner")
                .spawn_restarting(move || until.clone().cancelled_owned())
                .await;
        }
    });
    while supervisor.names() != ["inner", "outer"] {
        tokio::task::yield_now().await;
    }
    shutdown.cancel();
    outer.await;
    assert!(supervisor.health().is_empty());
}

#[tokio::test]
async fn a_task_that_is_aborted_is_forgotten() {
    let supervisor = Supervisor::new();
    let running = supervisor
        .task("probe")
        .spawn_restarting(std::future::pending);
    tokio::task::yield_now().await;
    running.abort();
    running.await;
    assert!(supervisor.health().is_empty());
}

#[test]
fn the_end_of_an_essential_thread_by_a_panic_is_a_failure_of_the_process() {
    let supervisor = Supervisor::new();
    supervisor.task("writer").essential_thread(|| {});
    assert_eq!(supervisor.failure(), None);
    assert!(supervisor.health().is_empty());
    supervisor
        .task("writer")
        .essential_thread(|| panic!("torn page"));
    let failure = supervisor.failure().expect("a failure");
    assert_eq!(failure.to_string(), "task `writer` panicked: torn page");
}
