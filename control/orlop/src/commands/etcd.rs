//! `orlop etcd`: the members of the etcd that servers manage.

mod recover;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use control_etcd::plan::{MemberView, check_removal, find};
use control_etcd::{Admin, Record};
use serde_json::{Value, json};

use super::token;
use crate::{
    error::Error,
    kubeconfig::Kubeconfig,
    servers::{self, etcd},
    table::table,
};

/// Examples in the help.
pub const EXAMPLES: &str = "\
Run it on a server: it asks the members with the server's keys. Replace a machine that is gone for
good with `orlop etcd members replace NAME`, which prints the line for the new machine.";

/// Server and subcommand.
#[derive(Args)]
pub struct Options {
    /// Data folder of the server on this machine.
    #[arg(
        long,
        global = true,
        value_name = "FOLDER",
        default_value = "/var/lib/orlop/server"
    )]
    data_dir: PathBuf,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
    #[command(subcommand)]
    command: Command,
}

/// Subcommand.
#[derive(Subcommand)]
enum Command {
    /// Show the members, or change them.
    Members {
        /// Print JSON.
        #[arg(long, global = true)]
        json: bool,
        #[command(subcommand)]
        change: Option<MemberChange>,
    },
    /// Continue with the member of this machine alone when most of the others are
    /// permanently lost. Stop the server first. Changes that only the others have are
    /// lost.
    Recover(recover::Options),
}

/// How the members are to change.
#[derive(Subcommand)]
enum MemberChange {
    /// Show the members and how they are; exit code 1 if one is not well.
    List,
    /// Remove a member whose machine does not come back.
    Remove(MemberRemoval),
    /// Remove a member, and print the line with which another machine takes its place.
    Replace(MemberRemoval),
}

/// Member, and safety checks.
#[derive(Args)]
struct MemberRemoval {
    /// Its name, or its number as `members list` shows it.
    #[arg(value_name = "NAME|ID")]
    member: String,
    /// Remove it even if those that are left have no majority that answers.
    #[arg(long)]
    force: bool,
}

/// Runs the command.
///
/// # Errors
/// A folder without a member, members that do not answer, a refused removal.
pub async fn run(options: Options) -> Result<(), Error> {
    let (json, change) = match &options.command {
        Command::Members { json, change } => (json, change),
        Command::Recover(recovery) => {
            return Box::pin(recover::run(&options.data_dir, recovery)).await;
        }
    };
    let admin = admin(&options).await?;
    let failed = |error| Error::Servers(servers::Error::Etcd(error));
    let members = admin.survey().await.map_err(failed)?;
    let (removal, replaces) = match change {
        None | Some(MemberChange::List) => return list(&members, *json),
        Some(MemberChange::Remove(removal)) => (removal, false),
        Some(MemberChange::Replace(removal)) => (removal, true),
    };
    let member = find(&members, &removal.member).map_err(failed)?;
    if !removal.force {
        check_removal(&members, member.id).map_err(failed)?;
    }
    let others: Vec<String> = members
        .iter()
        .filter(|other| other.id != member.id)
        .flat_map(|other| other.client_urls.clone())
        .collect();
    admin.at(others).remove(member.id).await.map_err(failed)?;
    println!("member {} ({:x}) is removed", member.label(), member.id);
    if replaces {
        let own = [options.data_dir.join("admin.kubeconfig")];
        let client = options.kubeconfig.client_or(&own, "orlop-etcd").await?;
        let description = format!("in place of {}", member.label());
        let line = token::line_for_server(&client, options.data_dir.clone(), &description).await?;
        println!("run this on the new machine within an hour:\n{line}");
    }
    Ok(())
}

/// A client of all members that the one on this machine knows.
async fn admin(options: &Options) -> Result<Admin, Error> {
    let failed = |error| Error::Servers(servers::Error::Etcd(error));
    let folder = etcd::folder(&options.data_dir);
    let record = Record::load(&folder).map_err(failed)?.ok_or_else(|| {
        Error::Option(format!(
            "`{}` has no member of etcd: run this on a server that was started with `--etcd \
             managed` or joined one, or name its folder with --data-dir",
            folder.display()
        ))
    })?;
    let credentials = etcd::credentials(&options.data_dir.join("pki")).map_err(Error::Servers)?;
    let known = vec![record.local_url()]
        .into_iter()
        .chain(record.others.clone())
        .collect();
    let admin = Admin::new(credentials, known);
    // Existing members know those that were added later.
    let members = admin.members().await.map_err(failed)?;
    let mut urls: Vec<String> = members
        .into_iter()
        .flat_map(|member| member.client_urls)
        .collect();
    urls.insert(0, record.local_url());
    Ok(admin.at(urls))
}

fn list(members: &[MemberView], as_json: bool) -> Result<(), Error> {
    if as_json {
        let all: Vec<Value> = members.iter().map(described).collect();
        println!("{}", json!(all));
    } else {
        print!("{}", page(members));
    }
    let unwell = members.iter().filter(|member| problem(member).is_some());
    match unwell.count() {
        0 => Ok(()),
        count => Err(Error::Status(count)),
    }
}

/// Returns the problem of a member, if any.
fn problem(member: &MemberView) -> Option<String> {
    let Some(status) = &member.status else {
        return Some(if member.name.is_empty() {
            "not started".to_owned()
        } else {
            "no answer".to_owned()
        });
    };
    if status.leader == 0 {
        return Some("no leader".to_owned());
    }
    (!status.errors.is_empty()).then(|| status.errors.join("; "))
}

fn page(members: &[MemberView]) -> String {
    let rows: Vec<_> = members
        .iter()
        .map(|member| {
            let status = member.status.as_ref();
            let version = status.map_or("", |status| status.version.as_str());
            let size = status.map_or_else(String::new, |status| size(status.db_size));
            let role = match (member.is_learner, member.is_leader()) {
                (true, _) => "learner",
                (false, true) => "leader",
                (false, false) => "follower",
            };
            let problem = problem(member);
            [
                member.label(),
                format!("{:x}", member.id),
                member.peer_urls.join(","),
                member.client_urls.join(","),
                role.to_owned(),
                version.to_owned(),
                size,
                if status.is_some_and(|one| one.leader != 0) {
                    "yes"
                } else {
                    "no"
                }
                .to_owned(),
                problem.unwrap_or_default(),
            ]
        })
        .collect();
    table(
        [
            "NAME", "ID", "PEER", "CLIENT", "ROLE", "VERSION", "SIZE", "HEALTHY", "ERRORS",
        ],
        &rows,
    )
}

fn described(member: &MemberView) -> Value {
    let status = member.status.as_ref();
    json!({
        "name": member.name,
        "id": format!("{:x}", member.id),
        "peerURLs": member.peer_urls,
        "clientURLs": member.client_urls,
        "isLearner": member.is_learner,
        "isLeader": member.is_leader(),
        "isHealthy": member.is_healthy(),
        "version": status.map(|status| &status.version),
        "dbSize": status.map(|status| status.db_size),
        "dbSizeInUse": status.map(|status| status.db_in_use),
        "errors": problem(member).into_iter().collect::<Vec<_>>(),
    })
}

/// Bytes for people.
fn size(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use control_etcd::plan::MemberStatus;

    use super::*;

    fn member(id: u64, status: Option<MemberStatus>) -> MemberView {
        MemberView {
            id,
            name: format!("server-{id}"),
            peer_urls: vec![format!("https://10.0.0.{id}:2380")],
            client_urls: vec![format!("https://10.0.0.{id}:2379")],
            is_learner: false,
            status,
        }
    }

    #[test]
    fn the_table_says_who_leads_and_who_does_not_answer() {
        let well = |leader| MemberStatus {
            leader,
            version: "3.4.23".to_owned(),
            db_size: 3 << 20,
            ..MemberStatus::default()
        };
        let mut full = well(1);
        full.errors = vec!["memberID:2 alarm:NOSPACE".to_owned()];
        let members = [
            member(1, Some(well(1))),
            member(2, Some(full)),
            member(3, None),
        ];
        let page = page(&members);
        let line = |name: &str| {
            page.lines()
                .find(|line| line.starts_with(name))
                .unwrap_or("")
        };
        assert!(line("server-1").contains("leader") && line("server-1").contains("3.0 MiB"));
        assert!(line("server-1").trim_end().ends_with("yes"), "{page}");
        assert!(line("server-2").contains("follower") && line("server-2").contains("NOSPACE"));
        assert!(line("server-3").contains("no answer"), "{page}");
        assert!(list(&members, false).is_err());
        assert!(list(&members[..1], true).is_ok());
        assert_eq!(described(&members[2])["isHealthy"], false);
    }
}
