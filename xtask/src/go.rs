//! Stock Kubernetes programs that tests run beside ours, built from Go modules whose
//! versions and hashes `tests/programs` pins. The results are in `target/go/bin`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use crate::run::{Step, output, print_step, target, which, workspace};

/// A program and where its source is.
struct GoProgram {
    name: &'static str,
    /// Folder of `tests/programs` with the `go.mod` that pins it.
    module: &'static str,
    package: &'static str,
    /// The environment variable by which tests find it.
    variable: &'static str,
    /// Whether one of the PATH does as well.
    on_path: fn() -> bool,
}

/// The release that programs report.
const KUBERNETES: &str = "v1.36.3";

const PROGRAMS: [GoProgram; 18] = [
    GoProgram {
        name: "kubectl",
        module: "kubernetes",
        package: "k8s.io/kubernetes/cmd/kubectl",
        variable: "KUBECTL",
        on_path: || which("kubectl").is_some(),
    },
    GoProgram {
        name: "dra-example-kubeletplugin",
        module: "dra",
        package: "sigs.k8s.io/dra-example-driver/cmd/dra-example-kubeletplugin",
        variable: "ORLOP_DRA_DRIVER",
        on_path: || which("dra-example-kubeletplugin").is_some(),
    },
    GoProgram {
        name: "csi-sanity",
        module: "csi",
        package: "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity",
        variable: "ORLOP_CSI_SANITY",
        on_path: || which("csi-sanity").is_some(),
    },
    GoProgram {
        name: "helm",
        module: "helm",
        package: "helm.sh/helm/v3/cmd/helm",
        variable: "ORLOP_HELM",
        on_path: || which("helm").is_some(),
    },
    GoProgram {
        name: "promtool",
        module: "prometheus",
        package: "github.com/prometheus/prometheus/cmd/promtool",
        variable: "ORLOP_PROMTOOL",
        on_path: || which("promtool").is_some(),
    },
    GoProgram {
        name: "prometheus",
        module: "prometheus",
        package: "github.com/prometheus/prometheus/cmd/prometheus",
        variable: "ORLOP_PROMETHEUS",
        on_path: || which("prometheus").is_some(),
    },
    GoProgram {
        name: "kubelet",
        module: "kubernetes",
        package: "k8s.io/kubernetes/cmd/kubelet",
        variable: "ORLOP_KUBELET",
        on_path: || which("kubelet").is_some(),
    },
    GoProgram {
        name: "kube-apiserver",
        module: "kubernetes",
        package: "k8s.io/kubernetes/cmd/kube-apiserver",
        variable: "KUBE_APISERVER",
        on_path: || which("kube-apiserver").is_some(),
    },
    GoProgram {
        name: "kube-scheduler",
        module: "kubernetes",
        package: "k8s.io/kubernetes/cmd/kube-scheduler",
        variable: "KUBE_SCHEDULER",
        on_path: || which("kube-scheduler").is_some(),
    },
    GoProgram {
        name: "kube-controller-manager",
        module: "kubernetes",
        package: "k8s.io/kubernetes/cmd/kube-controller-manager",
        variable: "KUBE_CONTROLLER_MANAGER",
        on_path: || which("kube-controller-manager").is_some(),
    },
    GoProgram {
        name: "kube-proxy",
        module: "kubernetes",
        package: "k8s.io/kubernetes/cmd/kube-proxy",
        variable: "KUBE_PROXY",
        on_path: || which("kube-proxy").is_some(),
    },
    GoProgram {
        name: "kubeadm",
        module: "kubernetes",
        package: "k8s.io/kubernetes/cmd/kubeadm",
        variable: "KUBEADM",
        on_path: || which("kubeadm").is_some(),
    },
    GoProgram {
        name: "etcd-server",
        module: "etcd",
        package: "go.etcd.io/etcd/server/v3",
        variable: "ETCD_SERVER",
        on_path: || which("etcd-server").is_some(),
    },
    GoProgram {
        name: "coredns",
        module: "coredns",
        package: "orlop.dev/tests/coredns",
        variable: "COREDNS",
        on_path: || which("coredns").is_some(),
    },
    GoProgram {
        name: "metallb-controller",
        module: "metallb",
        package: "go.universe.tf/metallb/controller",
        variable: "METALLB_CONTROLLER",
        on_path: || which("metallb-controller").is_some(),
    },
    GoProgram {
        name: "metallb-speaker",
        module: "metallb",
        package: "go.universe.tf/metallb/speaker",
        variable: "METALLB_SPEAKER",
        on_path: || which("metallb-speaker").is_some(),
    },
    GoProgram {
        name: "containerd",
        module: "containerd",
        package: "github.com/containerd/containerd/v2/cmd/containerd",
        variable: CONTAINERD,
        on_path: containerd_knows_cdi,
    },
    GoProgram {
        name: "containerd-shim-runc-v2",
        module: "containerd",
        package: "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
        variable: CONTAINERD,
        on_path: containerd_knows_cdi,
    },
];

/// Names the folder of another containerd for test hosts, or `HOST=FOLDER` for one of
/// them.
const CONTAINERD: &str = "ORLOP_CONTAINERD";

/// Returns the folder of the built programs.
pub fn folder() -> PathBuf {
    target().join("go/bin")
}

/// What only a cluster that kubeadm makes consists of. Its tests are run by name.
const OF_KUBEADM: [&str; 3] = ["kubeadm", "etcd-server", "coredns"];
/// MetalLB. Its test is run by name, too.
const OF_METALLB: [&str; 2] = ["metallb-controller", "metallb-speaker"];

/// Builds what is missing or older than its pins: the first time about eighteen minutes
/// of processor time, afterwards nothing. Programs on the PATH or in their variable are
/// not built. Without Go, or when its module proxy does not answer, nothing is built, and
/// the tests that need the program say so.
pub fn build() {
    build_these(|program| {
        !OF_KUBEADM.contains(&program.name) && !OF_METALLB.contains(&program.name)
    });
}

/// Builds what a cluster consists of that kubeadm makes, as [`build`] does: the first time
/// about four minutes more.
pub fn build_for_kubeadm() {
    build_these(|program| OF_KUBEADM.contains(&program.name));
}

/// Builds MetalLB, as [`build`] does: the first time about four minutes more.
pub fn build_for_metallb() {
    build_these(|program| OF_METALLB.contains(&program.name));
}

fn build_these(is_wanted: impl Fn(&GoProgram) -> bool) {
    let wanted: Vec<&GoProgram> = PROGRAMS
        .iter()
        .filter(|program| is_wanted(program) && !program.is_there() && !program.is_built())
        .collect();
    if wanted.is_empty() {
        return;
    }
    if which("go").is_none() {
        print_step("no Go on the PATH: stock Kubernetes programs for tests are not built");
        return;
    }
    for program in wanted {
        let step = Step::begin(format!("{} from its Go module", program.name));
        let built = output(&mut program.command());
        match built {
            Ok(_) => {
                step.done();
            }
            Err(error) => {
                drop(step);
                print_step(format!("{} is not built: {}", program.name, error.chain()));
            }
        }
    }
}

/// Returns the path of a program: the file that its variable names, the first on the
/// PATH, or the built one.
pub fn program(name: &str) -> Option<PathBuf> {
    let program = PROGRAMS.iter().find(|program| program.name == name)?;
    std::env::var_os(program.variable)
        .map(PathBuf::from)
        .or_else(|| which(name))
        .or_else(|| Some(program.path()))
        .filter(|path| path.is_file())
}

/// Names the built programs in the environment of tests, unless it names others.
pub fn name_programs(command: &mut Command) {
    for program in &PROGRAMS {
        let path = program.path();
        if program.is_there() || !path.is_file() {
            continue;
        }
        if program.variable == CONTAINERD {
            // The other host keeps the machine's.
            command.env(CONTAINERD, format!("node-2={}", folder().display()));
        } else {
            command.env(program.variable, path);
        }
    }
}

impl GoProgram {
    fn path(&self) -> PathBuf {
        folder().join(self.name)
    }

    /// Whether the machine offers it.
    fn is_there(&self) -> bool {
        std::env::var_os(self.variable).is_some() || (self.on_path)()
    }

    /// Whether it was built since its versions were changed.
    fn is_built(&self) -> bool {
        let built = modified(&self.path());
        built.is_some() && built >= modified(&self.source().join("go.sum"))
    }

    fn source(&self) -> PathBuf {
        workspace().join("tests/programs").join(self.module)
    }

    /// Prometheus finds its targets in its file here, and needs no client of each cloud.
    fn tags(&self) -> &'static str {
        match self.module {
            "prometheus" => "remove_all_sd",
            _ => "",
        }
    }

    /// Static, so that the same file runs in every mount namespace.
    fn command(&self) -> Command {
        let minor = KUBERNETES.split('.').nth(1).unwrap_or_default();
        let version = "k8s.io/component-base/version";
        let flags = format!(
            "-s -w -X {version}.gitVersion={KUBERNETES} -X {version}.gitMajor=1 \
             -X {version}.gitMinor={minor}"
        );
        let mut command = Command::new("go");
        command
            .args(["build", "-mod=readonly", "-buildvcs=false", "-trimpath"])
            .args(["-tags", self.tags(), "-ldflags", &flags, "-o"])
            .arg(self.path())
            .arg(self.package)
            .env("CGO_ENABLED", "0")
            .current_dir(self.source());
        command
    }
}

/// Whether the machine's containerd hands devices to containers by CDI, as 1.7 and later do.
fn containerd_knows_cdi() -> bool {
    let version = output(Command::new("containerd").arg("--version"));
    version.is_ok_and(|text| {
        let number = |text: &str| text.parse::<u32>().ok();
        text.split_whitespace()
            .find_map(|word| {
                let mut parts = word.trim_start_matches('v').split('.');
                Some((number(parts.next()?)?, number(parts.next()?)?))
            })
            .is_some_and(|version| version >= (1, 7))
    })
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|it| it.modified()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_is_pinned_in_its_module() {
        for program in &PROGRAMS {
            let pins = fs::read_to_string(program.source().join("go.mod")).unwrap();
            let package = program.package;
            let is_module = |word: &str| {
                let rest = package.strip_prefix(word);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            let pinned = pins.split_whitespace().any(is_module);
            assert!(pinned, "{} in {}", program.name, program.module);
        }
        let pins = fs::read_to_string(PROGRAMS[0].source().join("go.mod")).unwrap();
        assert!(pins.contains(&format!("k8s.io/kubernetes {KUBERNETES}")));
    }
}
