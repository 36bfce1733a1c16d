//! The images of kubeadm's static pods and addons, made of stock programs, and in kube-proxy's the
//! machine's iptables and nftables.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use tests::{Failure, ensure};
use xtask_oci::{Content, Image, Variant};

/// Where images have their programs.
const PROGRAMS: &str = "usr/local/bin";
/// What kube-proxy runs. Names of iptables are links to its first program.
const TOOLS: [&str; 2] = ["/usr/sbin/xtables-nft-multi", "/usr/sbin/nft"];
const IPTABLES: [&str; 6] = [
    "iptables",
    "iptables-save",
    "iptables-restore",
    "ip6tables",
    "ip6tables-save",
    "ip6tables-restore",
];

/// Writes an archive of images with these names, as `kubeadm config images list` prints them.
/// `programs` has the program of each but the pause image.
pub fn write(
    path: &Path,
    names: &[String],
    programs: &BTreeMap<String, PathBuf>,
) -> Result<(), Failure> {
    let mut images = Vec::new();
    for name in names {
        let base = base(name);
        let program = programs
            .get(base)
            .ok_or_else(|| format!("no program for the image {name}"))?;
        // The names by which the manifests call them, or that images start without a command.
        if matches!(base, "pause" | "coredns") {
            images.push(of_program(name, program)?);
            continue;
        }
        let mut files = Files::default();
        files.add(&format!("{PROGRAMS}/{base}"), program)?;
        if base == "kube-proxy" {
            files.packet_filters()?;
        }
        images.push(image(name, files, Vec::new()));
    }
    Ok(xtask_oci::write(File::create(path)?, &images, None)?)
}

/// An image that starts its only file, a program named as the image is.
pub fn of_program(name: &str, program: &Path) -> Result<Image, Failure> {
    let base = base(name);
    let mut files = Files::default();
    files.add(base, program)?;
    Ok(image(name, files, vec![format!("/{base}")]))
}

fn image(name: &str, files: Files, entrypoint: Vec<String>) -> Image {
    let variant = Variant {
        architecture: "amd64".to_owned(),
        files: files.0,
        entrypoint,
        arguments: Vec::new(),
        user: String::new(),
        compressed: false,
    };
    Image {
        name: name.to_owned(),
        variants: vec![variant],
        labels: Vec::new(),
    }
}

/// The last word of an image's name, without its tag.
pub fn base(name: &str) -> &str {
    let last = name.rsplit('/').next().unwrap_or(name);
    last.split(':').next().unwrap_or(last)
}

#[derive(Default)]
struct Files(Vec<xtask_oci::File>);

impl Files {
    fn add(&mut self, path: &str, from: &Path) -> Result<(), Failure> {
        let bytes = fs::read(from).map_err(|error| format!("{}: {error}", from.display()))?;
        self.push(path, Content::Bytes(bytes));
        Ok(())
    }

    fn push(&mut self, path: &str, content: Content) {
        self.0.push(xtask_oci::File {
            path: path.trim_start_matches('/').to_owned(),
            mode: 0o755,
            content,
        });
    }

    /// The programs, the extensions of iptables, and the libraries of both.
    fn packet_filters(&mut self) -> Result<(), Failure> {
        let tools: Vec<PathBuf> = TOOLS.iter().map(PathBuf::from).collect();
        let libraries = libraries_of(&tools)?;
        let main = libraries.iter().find(|it| it.contains("/libxtables.so"));
        let main = main.ok_or("iptables without its library")?;
        // The path that is compiled in.
        let folder = fs::canonicalize(main)?.with_file_name("xtables");
        let mut loaded = tools;
        for entry in fs::read_dir(folder)? {
            loaded.push(entry?.path());
        }
        let libraries = libraries_of(&loaded)?;
        loaded.extend(libraries.iter().map(PathBuf::from));
        for path in &loaded {
            self.add(&path.display().to_string(), path)?;
        }
        for name in IPTABLES {
            let link = Content::Link("xtables-nft-multi".to_owned());
            self.push(&format!("usr/sbin/{name}"), link);
        }
        Ok(())
    }
}

/// The files that the dynamic linker loads for these, itself included.
fn libraries_of(files: &[PathBuf]) -> Result<BTreeSet<String>, Failure> {
    let output = Command::new("ldd").args(files).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure(output.status.success(), format!("ldd: {errors}"))?;
    let text = String::from_utf8(output.stdout)?;
    // Each file's own line ends with a colon.
    let lines = text.lines().filter(|line| !line.ends_with(':'));
    let path = |line: &str| {
        let mut words = line.split_whitespace();
        words.find(|word| word.starts_with('/')).map(str::to_owned)
    };
    Ok(lines.filter_map(path).collect())
}
