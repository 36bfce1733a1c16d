//! What the pods' control groups are called, for either driver: the one place that knows.
//!
//! Source: the kubelet's documentation of cgroup drivers, and systemd.slice(5): the dashes
//! of a slice's name are its way from the root, so that `a-b.slice` is in `a.slice`. A dash
//! of a name's own is written as an underscore.

use std::fmt;

use node_agent_objects::pod::QosClass;

/// The component that creates control groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CgroupManager {
    /// The agent, as folders.
    #[default]
    Cgroupfs,
    /// Systemd, as its slices; the agent adds what systemd does not know.
    Systemd,
}

impl fmt::Display for CgroupManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cgroupfs => "cgroupfs",
            Self::Systemd => "systemd",
        })
    }
}

/// How the name of a slice's unit ends.
const SLICE: &str = ".slice";

/// The unit that all slices are in.
const ROOT_SLICE: &str = "-.slice";

/// Names of control groups, the same in every hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupLayout {
    driver: CgroupManager,
    /// The names on the way to the group of all pods, as the driver joins them.
    stem: String,
    root: String,
}

impl CgroupLayout {
    /// Everything below `parent`, such as `/` or `/node-1`, as folders.
    #[must_use]
    pub fn below(parent: &str) -> Self {
        Self::new(CgroupManager::Cgroupfs, parent)
    }

    /// Everything below `parent`: for systemd either a group as for folders (`/node-1` is
    /// `node_1.slice`), or the path of a slice.
    #[must_use]
    pub fn new(driver: CgroupManager, parent: &str) -> Self {
        let parent = parent.trim_matches('/');
        let last = parent.rsplit('/').next().unwrap_or_default();
        let above = match (driver, last.strip_suffix(SLICE)) {
            (CgroupManager::Cgroupfs, _) => parent.to_owned(),
            // a slice's name has its way in it
            (CgroupManager::Systemd, Some(slice)) => slice.to_owned(),
            (CgroupManager::Systemd, None) => {
                let parts = parent.split('/').filter(|part| !part.is_empty());
                parts.map(escaped).collect::<Vec<_>>().join("-")
            }
        };
        let mut found = Self {
            driver,
            stem: String::new(),
            root: String::new(),
        };
        found.stem = found.join(&above, "kubepods");
        found.root = found.path(&found.stem);
        found
    }

    /// Who makes the groups.
    #[must_use]
    pub fn driver(&self) -> CgroupManager {
        self.driver
    }

    /// The group of all pods.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.root
    }

    /// The group of all pods of a class.
    #[must_use]
    pub fn class(&self, class: QosClass) -> String {
        self.path(&self.class_stem(class))
    }

    /// The group of one pod: what the runtime is told, too, which takes of a slice's path
    /// what it needs.
    #[must_use]
    pub fn pod(&self, class: QosClass, uid: &str) -> String {
        self.path(&self.join(&self.class_stem(class), &format!("pod{uid}")))
    }

    /// The uid of the pod whose group has this name in the group of its class.
    #[must_use]
    pub fn uid(&self, class: QosClass, name: &str) -> Option<String> {
        match self.driver {
            CgroupManager::Cgroupfs => Some(name.strip_prefix("pod")?.to_owned()),
            CgroupManager::Systemd => {
                let own = name.strip_prefix(&self.class_stem(class))?;
                let uid = own.strip_prefix("-pod")?.strip_suffix(SLICE)?;
                // what is below another pod's is no pod
                (!uid.contains('-')).then(|| uid.replace('_', "-"))
            }
        }
    }

    /// The group of a container, which the runtime makes in that of its pod.
    #[must_use]
    pub fn container(&self, pod: &str, runtime: &str, id: &str) -> String {
        match (self.driver, runtime) {
            (CgroupManager::Cgroupfs, _) => format!("{pod}/{id}"),
            (CgroupManager::Systemd, "cri-o") => format!("{pod}/crio-{id}.scope"),
            (CgroupManager::Systemd, _) => format!("{pod}/cri-{runtime}-{id}.scope"),
        }
    }

    fn class_stem(&self, class: QosClass) -> String {
        match class {
            QosClass::Guaranteed => self.stem.clone(),
            QosClass::Burstable => self.join(&self.stem, "burstable"),
            QosClass::BestEffort => self.join(&self.stem, "besteffort"),
        }
    }

    fn join(&self, above: &str, name: &str) -> String {
        match (self.driver, above) {
            (CgroupManager::Cgroupfs, "") => name.to_owned(),
            (CgroupManager::Cgroupfs, _) => format!("{above}/{name}"),
            (CgroupManager::Systemd, "") => escaped(name),
            (CgroupManager::Systemd, _) => format!("{above}-{}", escaped(name)),
        }
    }

    /// From the root of the tree.
    fn path(&self, stem: &str) -> String {
        match self.driver {
            CgroupManager::Cgroupfs => format!("/{stem}"),
            CgroupManager::Systemd => {
                let (mut path, mut slice) = (String::new(), String::new());
                for part in stem.split('-') {
                    if !slice.is_empty() {
                        slice.push('-');
                    }
                    slice.push_str(part);
                    path.push('/');
                    path.push_str(&slice);
                    path.push_str(SLICE);
                }
                path
            }
        }
    }
}

/// A name of which no dash leads to another slice.
fn escaped(name: &str) -> String {
    name.replace('-', "_")
}

/// The unit of a slice by its path, and the unit that it is in.
#[must_use]
pub fn unit(path: &str) -> (&str, &str) {
    let mut parts = path.rsplit('/').filter(|part| !part.is_empty());
    let own = parts.next().unwrap_or(ROOT_SLICE);
    (own, parts.next().unwrap_or(ROOT_SLICE))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "6c1a4e95-6bb6-11e6-bc26-28d2444e470d";
    const OF_UID: &str = "pod6c1a4e95_6bb6_11e6_bc26_28d2444e470d.slice";
    const CLASSES: [QosClass; 3] = [
        QosClass::Guaranteed,
        QosClass::Burstable,
        QosClass::BestEffort,
    ];

    #[test]
    fn folders_are_named_as_the_kubelet_names_them() {
        let layout = CgroupLayout::below("/node-1/");
        assert_eq!(
            CLASSES.map(|class| layout.pod(class, "u")),
            [
                "/node-1/kubepods/podu",
                "/node-1/kubepods/burstable/podu",
                "/node-1/kubepods/besteffort/podu"
            ]
        );
        assert_eq!(layout.root(), "/node-1/kubepods");
        assert_eq!(
            CgroupLayout::below("/").pod(QosClass::BestEffort, "u"),
            "/kubepods/besteffort/podu"
        );
        assert_eq!(layout.container("/g", "containerd", "c"), "/g/c");
    }

    #[test]
    fn slices_are_named_as_the_kubelet_names_them() {
        let layout = CgroupLayout::new(CgroupManager::Systemd, "/");
        assert_eq!(layout.root(), "/kubepods.slice");
        assert_eq!(
            CLASSES.map(|class| layout.class(class)),
            [
                "/kubepods.slice",
                "/kubepods.slice/kubepods-burstable.slice",
                "/kubepods.slice/kubepods-besteffort.slice"
            ]
        );
        assert_eq!(
            CLASSES.map(|class| layout.pod(class, UID)),
            [
                format!("/kubepods.slice/kubepods-{OF_UID}"),
                format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-{OF_UID}"),
                format!("/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-{OF_UID}"),
            ]
        );
        for (runtime, scope) in [
            ("containerd", "/g.slice/cri-containerd-c.scope"),
            ("cri-o", "/g.slice/crio-c.scope"),
        ] {
            assert_eq!(layout.container("/g.slice", runtime, "c"), scope);
        }
    }

    #[test]
    fn a_root_of_pods_may_be_a_group_or_a_slice() {
        for (parent, root) in [
            ("", "/kubepods.slice"),
            ("node", "/node.slice/node-kubepods.slice"),
            ("/node-1", "/node_1.slice/node_1-kubepods.slice"),
            ("/node_1.slice", "/node_1.slice/node_1-kubepods.slice"),
            ("/a/b", "/a.slice/a-b.slice/a-b-kubepods.slice"),
            (
                "/a.slice/a-b.slice",
                "/a.slice/a-b.slice/a-b-kubepods.slice",
            ),
        ] {
            assert_eq!(
                CgroupLayout::new(CgroupManager::Systemd, parent).root(),
                root,
                "{parent}"
            );
        }
    }

    #[test]
    fn pods_are_known_by_their_groups_and_nothing_else_is_one() {
        for layout in [
            CgroupLayout::below("/"),
            CgroupLayout::new(CgroupManager::Systemd, "/"),
            CgroupLayout::new(CgroupManager::Systemd, "/node-1"),
        ] {
            for class in CLASSES {
                let path = layout.pod(class, UID);
                let (name, _) = unit(&path);
                assert_eq!(layout.uid(class, name).as_deref(), Some(UID), "{path}");
            }
            let burstable = layout.class(QosClass::Burstable);
            let (name, _) = unit(&burstable);
            assert_eq!(layout.uid(QosClass::Guaranteed, name), None);
        }
        let layout = CgroupLayout::new(CgroupManager::Systemd, "/");
        for name in [
            "kubepods-podu-below.slice",
            "kubepods-podu",
            "system-podu.slice",
            "cri-containerd-podu.scope",
        ] {
            assert_eq!(layout.uid(QosClass::Guaranteed, name), None, "{name}");
        }
    }

    #[test]
    fn a_slice_wants_the_one_that_it_is_in() {
        for (path, expected) in [
            ("/kubepods.slice", ("kubepods.slice", "-.slice")),
            (
                "/kubepods.slice/kubepods-podu.slice",
                ("kubepods-podu.slice", "kubepods.slice"),
            ),
        ] {
            assert_eq!(unit(path), expected);
        }
    }
}
