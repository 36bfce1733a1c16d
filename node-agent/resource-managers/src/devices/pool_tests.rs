use super::*;

const GPU: &str = "example.com/gpu";

fn device(id: &str, health: &str, numa: Option<i64>) -> Device {
    Device {
        id: id.to_owned(),
        health: health.to_owned(),
        topology: numa.map(|id| TopologyInfo {
            nodes: vec![NumaNode { id }],
        }),
    }
}

fn pool() -> DevicePool {
    let mut pool = DevicePool::default();
    pool.set(
        GPU,
        vec![
            device("a", "Healthy", Some(0)),
            device("b", "Healthy", None),
            device("c", "Healthy", None),
            device("d", "Unhealthy", None),
        ],
    );
    pool
}

fn give(
    pool: &mut DevicePool,
    pod: &str,
    container: &str,
    count: usize,
    before: &[&str],
) -> Vec<String> {
    let choice = pool
        .choose(pod, container, GPU, count, before, None)
        .unwrap();
    let taken = choice.unwrap().pick(&["c".to_owned(), "d".to_owned()]);
    pool.grant(
        pod,
        container,
        GPU,
        &taken,
        ContainerAllocateResponse::default(),
    );
    taken.into_iter().collect()
}

#[test]
fn devices_are_given_once_healthy_and_as_the_plugin_prefers() {
    let mut pool = pool();
    assert_eq!(pool.counts()[GPU], (4, 3));
    assert_eq!(give(&mut pool, "p", "x", 2, &[]), ["a", "c"]);
    assert_eq!(pool.choose("p", "x", GPU, 2, &[], None).unwrap(), None);
    assert!(pool.choose("p", "x", GPU, 3, &[], None).is_err());
    let none = pool.choose("q", "x", GPU, 2, &[], None).unwrap_err();
    assert_eq!(
        none.to_string(),
        "requested number of devices unavailable for example.com/gpu. Requested: 2, Available: 1"
    );
    assert!(pool.keep(|pod| pod != "p"));
    assert_eq!(give(&mut pool, "q", "x", 3, &[]).len(), 3);
}

#[test]
fn what_an_init_container_had_is_its_successors_first() {
    let mut pool = pool();
    let first = give(&mut pool, "p", "init", 2, &[]);
    assert_eq!(give(&mut pool, "p", "main", 2, &["init"]), first);
    // what main has now is no longer to be had
    assert_eq!(give(&mut pool, "p", "beside", 1, &["init"]), ["b"]);
    assert!(pool.choose("p", "third", GPU, 1, &["init"], None).is_err());
}

#[test]
fn without_their_plugin_devices_are_of_no_use() {
    let mut pool = pool();
    pool.lost(GPU);
    assert_eq!(pool.counts()[GPU], (4, 0));
    let why = pool.choose("p", "x", GPU, 1, &[], None).unwrap_err();
    assert_eq!(
        why.to_string(),
        "cannot allocate unregistered device example.com/gpu"
    );
    pool.set(GPU, vec![device("d", "Unhealthy", None)]);
    let why = pool.choose("p", "x", GPU, 1, &[], None).unwrap_err();
    assert!(
        why.to_string().starts_with("no healthy devices present"),
        "{why}"
    );
    assert!(!pool.knows("other"));
}

#[test]
fn a_checkpoint_of_the_kubelets_is_read_and_so_is_ones_own() {
    let kubelets = r#"{"Data":{"PodDeviceEntries":[{"PodUID":"p","ContainerName":"x","ResourceName":"example.com/gpu","DeviceIDs":{"-1":["b"],"0":["a"]},"AllocResp":"CggKAUESA0EgQg=="}],"RegisteredDevices":{"example.com/gpu":["a","b"]}},"Checksum":123456}"#;
    let mut pool = DevicePool::load(kubelets).unwrap();
    assert!(pool.knows(GPU));
    assert_eq!(pool.counts()[GPU], (0, 0));
    pool.set(
        GPU,
        vec![device("a", "Healthy", None), device("c", "Healthy", None)],
    );
    assert!(
        pool.choose("q", "x", GPU, 2, &[], None).is_err(),
        "a is taken"
    );
    let again = DevicePool::load(&pool.save()).unwrap();
    assert_eq!(again.grants(), pool.grants());
    assert_eq!(again.grants()[0].response.envs["A"], "A B");
    assert!(DevicePool::load("{").is_err());
}

#[test]
fn a_checkpoint_is_byte_for_byte_the_kubelets() {
    // written by the kubelet's own code (1.36.3)
    let kubelets = r#"{"Data":{"PodDeviceEntries":[{"PodUID":"p","ContainerName":"x","ResourceName":"example.com/gpu","DeviceIDs":{"-1":["b"],"0":["a"]},"AllocResp":"CggKAUESA0EgQg=="}],"RegisteredDevices":{"example.com/gpu":["a","b"]}},"Checksum":4052784180}"#;
    let mut pool = DevicePool::load(kubelets).unwrap();
    pool.set(
        GPU,
        vec![device("a", "Healthy", None), device("b", "Healthy", None)],
    );
    assert_eq!(pool.save(), kubelets);
}

#[test]
fn devices_are_where_their_plugin_says_and_taken_near() {
    let mut pool = DevicePool::default();
    let all = [("a", 0), ("b", 0), ("c", 1), ("d", 1)];
    let placed = |(id, numa): (&str, i64)| device(id, "Healthy", Some(numa));
    pool.set(GPU, all.into_iter().map(placed).collect());
    let nodes: NumaMask = [0, 1].into_iter().collect();
    let node = |id: u32| -> NumaMask { [id].into_iter().collect() };
    let preferred = |pool: &DevicePool, count| -> Option<Vec<NumaMask>> {
        let places = pool.places("p", Some("x"), GPU, count, &[], nodes)?;
        let good = places.into_iter().filter(|h| h.preferred);
        Some(good.filter_map(|h| h.nodes).collect())
    };
    assert_eq!(preferred(&pool, 2), Some(vec![node(0), node(1)]));
    assert_eq!(preferred(&pool, 3), Some(vec![nodes]));
    assert_eq!(preferred(&pool, 5), Some(vec![]), "there are not as many");
    let choice = pool
        .choose("p", "x", GPU, 1, &[], Some(node(1)))
        .unwrap()
        .unwrap();
    // the plugin cannot have it otherwise
    let taken = choice.pick(&["a".to_owned(), "d".to_owned()]);
    assert_eq!(taken, ["d".to_owned()].into());
    pool.grant("p", "x", GPU, &taken, ContainerAllocateResponse::default());
    // one is left there, the other comes from elsewhere
    let choice = pool
        .choose("q", "x", GPU, 2, &[], Some(node(1)))
        .unwrap()
        .unwrap();
    let taken = choice.pick(&[]);
    assert_eq!(taken, ["a".to_owned(), "c".to_owned()].into());
    // what it has is where it is
    assert_eq!(preferred(&pool, 1), Some(vec![node(1)]));
    // devices without a place are anywhere
    pool.set(GPU, vec![device("a", "Healthy", None)]);
    assert_eq!(preferred(&pool, 1), None);
}
