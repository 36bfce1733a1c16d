//! `orlop completion` and `orlop man`: what shells and man(1) know of the commands.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use clap_complete::{Shell, generate};
use clap_mangen::Man;

use crate::error::Error;

/// Examples shown at the end of `--help`.
pub const EXAMPLES: &str = "\
Examples:
  orlop completion bash > /etc/bash_completion.d/orlop
  orlop completion zsh > \"${fpath[1]}/_orlop\"
  orlop completion fish > ~/.config/fish/completions/orlop.fish
  source <(orlop completion bash)                             # in this shell only";

/// Examples shown at the end of `man --help`.
pub const MAN_EXAMPLES: &str = "\
Examples:
  orlop man status | man -l -                     read one page
  orlop man --dir /usr/local/share/man/man1       install all of them";

/// For which shell.
#[derive(Args)]
pub struct Options {
    /// The shell.
    #[arg(value_enum)]
    shell: ShellArg,
}

#[derive(Clone, Copy, ValueEnum)]
enum ShellArg {
    /// GNU Bash.
    Bash,
    /// Z shell.
    Zsh,
    /// fish.
    Fish,
}

/// Manual pages to write.
#[derive(Args)]
pub struct ManOptions {
    /// The command, such as `node-agent uninstall`; that of orlop itself unless given.
    #[arg(conflicts_with = "dir")]
    command: Vec<String>,
    /// Write the pages of all commands to this folder.
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

/// Prints the script.
pub fn run(options: &Options, mut command: clap::Command) {
    let shell = match options.shell {
        ShellArg::Bash => Shell::Bash,
        ShellArg::Zsh => Shell::Zsh,
        ShellArg::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut command, "orlop", &mut script);
    print!("{}", String::from_utf8_lossy(&script));
}

/// Prints one page, or writes all pages.
///
/// # Errors
/// [`Error::Option`] for an unknown command; [`Error::File`].
pub fn man(options: &ManOptions, mut command: clap::Command) -> Result<(), Error> {
    // Only this adds the parents' names to subcommands.
    command.build();
    match &options.dir {
        Some(folder) => write_pages(&command, folder),
        None => {
            let page = page(find(&command, &options.command)?)?;
            print!("{}", String::from_utf8_lossy(&page));
            Ok(())
        }
    }
}

fn find<'a>(command: &'a clap::Command, words: &[String]) -> Result<&'a clap::Command, Error> {
    words.iter().try_fold(command, |command, word| {
        command.find_subcommand(word).ok_or_else(|| {
            Error::Option(format!(
                "`{}` has no command `{word}`: see its --help",
                command.get_bin_name().unwrap_or("orlop")
            ))
        })
    })
}

/// Renders a page of section 1, named as git(1) names those of its commands:
/// `orlop-node-agent`.
fn page(command: &clap::Command) -> Result<Vec<u8>, Error> {
    let mut text = Vec::new();
    let page = Man::new(command.clone()).title(file_stem(command));
    page.render(&mut text).map_err(Error::Start)?;
    Ok(text)
}

fn file_stem(command: &clap::Command) -> String {
    let name = command.get_bin_name().unwrap_or("orlop");
    name.replace(' ', "-")
}

fn write_pages(command: &clap::Command, folder: &Path) -> Result<(), Error> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::File { path, source }
    };
    std::fs::create_dir_all(folder).map_err(failed(folder))?;
    let mut waiting = vec![command];
    while let Some(command) = waiting.pop() {
        let path = folder.join(format!("{}.1", file_stem(command)));
        std::fs::write(&path, page(command)?).map_err(failed(&path))?;
        let shown = |it: &&clap::Command| it.get_name() != "help" && !it.is_hide_set();
        waiting.extend(command.get_subcommands().filter(shown));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};

    use super::*;

    fn command() -> Command {
        let uninstall = Command::new("uninstall").about("Remove the datapath");
        Command::new("orlop")
            .subcommand(Command::new("node-agent").subcommand(uninstall))
            .subcommand(Command::new("status").arg(Arg::new("output").long("output")))
    }

    #[test]
    fn every_command_has_a_page_named_after_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = ManOptions {
            command: Vec::new(),
            dir: Some(folder.path().join("man1")),
        };
        man(&options, command()).expect("written");
        let page = |name: &str| {
            let path = folder.path().join("man1").join(name);
            std::fs::read_to_string(path).expect("a page")
        };
        assert!(page("orlop-node-agent-uninstall.1").contains("Remove the datapath"));
        assert!(page("orlop-status.1").contains("output"));
        assert!(page("orlop.1").starts_with(".ie"), "roff");
        let unknown = find(&command(), &["nope".to_owned()]).expect_err("unknown");
        assert!(unknown.to_string().contains("no command `nope`"));
    }
}
