//! What the compiler is told of pods, where the API is behind: a pod has its
//! addresses before its status says so, and may have had another pod's.

use std::{collections::HashMap, net::IpAddr};

use node_agent_policy::{Compiler, objects::Pod};

/// Namespace and name of a pod.
pub type PodName = (String, String);

/// Addresses that the CNI plugin assigned, until their pods are gone.
#[derive(Debug, Default)]
pub struct AddressBook {
    given: HashMap<PodName, GivenAddress>,
    holders: HashMap<IpAddr, PodName>,
}

#[derive(Debug)]
struct GivenAddress {
    uid: String,
    addresses: Vec<IpAddr>,
}

impl AddressBook {
    /// A pod was given addresses: whoever had them has them no more.
    pub fn assign(
        &mut self,
        name: &PodName,
        uid: &str,
        addresses: &[IpAddr],
        compiler: &mut Compiler,
    ) {
        self.take_back(name);
        for address in addresses {
            if let Some(former) = self.holders.insert(*address, name.clone())
                && former != *name
            {
                compiler.pod(&former.0, &former.1, None);
                self.given.remove(&former);
            }
        }
        let given = GivenAddress {
            uid: uid.to_owned(),
            addresses: addresses.to_vec(),
        };
        self.given.insert(name.clone(), given);
    }

    /// Tells the compiler of a pod as it is now; `uid` is the object's.
    pub fn observe_pod(
        &mut self,
        name: &PodName,
        pod: Option<(&str, &Pod)>,
        compiler: &mut Compiler,
    ) {
        let Some((uid, pod)) = pod else {
            self.take_back(name);
            compiler.pod(&name.0, &name.1, None);
            return;
        };
        if self.given.get(name).is_some_and(|it| it.uid != uid) {
            self.take_back(name);
        }
        if let Some(given) = self.given.get(name) {
            compiler.pod_at(pod, &given.addresses);
            return;
        }
        let stated = stated(pod);
        let lost = |address: &IpAddr| self.holders.contains_key(address);
        if stated.iter().any(lost) {
            // Another pod has it by now.
            compiler.pod(&name.0, &name.1, None);
        } else {
            compiler.pod(&name.0, &name.1, Some(pod));
        }
    }

    fn take_back(&mut self, name: &PodName) {
        if let Some(given) = self.given.remove(name) {
            for address in given.addresses {
                if self.holders.get(&address) == Some(name) {
                    self.holders.remove(&address);
                }
            }
        }
    }
}

/// The addresses that a pod's status says.
fn stated(pod: &Pod) -> Vec<IpAddr> {
    let status = &pod.status;
    std::iter::once(&status.pod_ip)
        .chain(status.pod_ips.iter().map(|it| &it.ip))
        .filter_map(|it| it.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use ebpf_abi::Protocol;
    use node_agent_policy::Config;

    use super::*;

    const NODE: &str = "n";

    fn name(name: &str) -> PodName {
        ("x".to_owned(), name.to_owned())
    }

    fn pod(name: &str, address: Option<&str>) -> Pod {
        let value = serde_json::json!({
            "metadata": {"name": name, "namespace": "x"},
            "spec": {"nodeName": NODE},
            "status": {"podIP": address.unwrap_or_default()},
        });
        serde_json::from_value(value).expect("a pod")
    }

    fn compiler() -> Compiler {
        let mut compiler = Compiler::new(Config {
            node: Some(NODE.to_owned()),
            ..Config::default()
        });
        let namespace = serde_json::from_value(serde_json::json!({"metadata": {"name": "x"}}));
        compiler.namespace("x", Some(&namespace.expect("a namespace")));
        compiler
    }

    /// Who has an address, as the compiler sees it.
    fn who(compiler: &mut Compiler, address: &str) -> String {
        compiler.sync();
        let (to, outside) = (address.parse(), "192.0.2.9".parse());
        let (to, outside) = (to.expect("an address"), outside.expect("an address"));
        let said = compiler.explain(outside, to, Protocol::TCP, 80);
        said.to.to_string()
    }

    #[test]
    fn a_pod_has_its_addresses_before_its_status_says_so() {
        let (mut book, mut compiler) = (AddressBook::default(), compiler());
        let given = ["10.0.0.1".parse().expect("an address")];
        book.assign(&name("a"), "1", &given, &mut compiler);
        book.observe_pod(&name("a"), Some(("1", &pod("a", None))), &mut compiler);
        assert_eq!(who(&mut compiler, "10.0.0.1"), "x/a");
        // A pod of the same name that nothing was given yet.
        book.observe_pod(&name("a"), Some(("2", &pod("a", None))), &mut compiler);
        assert_eq!(who(&mut compiler, "10.0.0.1"), "10.0.0.1");
    }

    #[test]
    fn an_address_that_was_given_again_is_not_its_former_pods() {
        let (mut book, mut compiler) = (AddressBook::default(), compiler());
        let old = pod("old", Some("10.0.0.1"));
        book.observe_pod(&name("old"), Some(("1", &old)), &mut compiler);
        assert_eq!(who(&mut compiler, "10.0.0.1"), "x/old");
        let given = ["10.0.0.1".parse().expect("an address")];
        book.assign(&name("new"), "2", &given, &mut compiler);
        book.observe_pod(&name("new"), Some(("2", &pod("new", None))), &mut compiler);
        book.observe_pod(&name("old"), Some(("1", &old)), &mut compiler);
        assert_eq!(who(&mut compiler, "10.0.0.1"), "x/new");
        book.observe_pod(&name("new"), None, &mut compiler);
        assert_eq!(who(&mut compiler, "10.0.0.1"), "10.0.0.1");
    }
}
