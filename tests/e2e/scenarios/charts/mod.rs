//! A database's chart, as operators write them, under a stock helm: it comes up with a volume
//! for each member, heals with its data, keeps to its budget, rolls member by member, goes
//! back, shrinks and grows, and goes away.

use std::{path::PathBuf, process::Command};

use serde_json::Value;
use tests::{
    Cluster, Failure, ensure, eventually, no_stock_program, report::skip, stock_program, workspace,
};

use super::{local_volumes::pool::Pool, node::Node};

const VARIABLE: &str = "ORLOP_HELM";
const PROGRAM: &str = "helm";
const SPACE: &str = "charts";
const MEMBERS: [&str; 2] = ["db-0", "db-1"];

pub fn run(cluster: &Cluster) -> Result<(), Failure> {
    let Some(program) = stock_program(VARIABLE, PROGRAM) else {
        return skip(no_stock_program(VARIABLE, PROGRAM));
    };
    let nodes = ["node-1", "node-2"].map(|name| Node::of(cluster, name));
    let pools = [Pool::put(&nodes[0])?, Pool::put(&nodes[1])?];
    let result = scenario(&Chart { cluster, program });
    // What a failure left must not hold the pools.
    let ended = cluster.kubectl(&format!(
        "delete namespace {SPACE} --ignore-not-found --timeout=60s"
    ));
    result?;
    ended?;
    eventually("what is left of volumes", 20, || {
        for pool in &pools {
            let left = pool.inventory()?;
            ensure(left.is_empty(), format!("{left:#?}"))?;
        }
        Ok(())
    })
}

struct Chart<'a> {
    cluster: &'a Cluster,
    program: PathBuf,
}

fn scenario(chart: &Chart<'_>) -> Result<(), Failure> {
    chart.helm("install db CHART --create-namespace --wait --timeout 120s")?;
    let password = chart.password(MEMBERS[0])?;
    chart.members_are_apart()?;
    chart.helm("test db --timeout 60s")?;
    for member in MEMBERS {
        chart.inside(member, &format!("keep /data/word {member}"))?;
    }
    chart.keeps_to_its_budget()?;
    chart.rolls_member_by_member()?;
    ensure(
        chart.password(MEMBERS[1])? == password,
        "an upgrade kept the password",
    )?;
    chart.helm("rollback db 1 --wait --timeout 120s")?;
    chart.greets("hello")?;
    chart.shrinks_and_grows()?;

    chart.helm("uninstall db --wait --timeout 60s")?;
    let claims = chart.get("pvc")?;
    let claims = claims["items"].as_array().map(Vec::len);
    ensure(claims == Some(2), "claims outlive the release")
}

impl Chart<'_> {
    /// Runs helm; `CHART` stands for the chart's folder.
    fn helm(&self, words: &str) -> Result<String, Failure> {
        let folder = workspace().join("tests/e2e/scenarios/charts/database");
        let folder = folder.to_string_lossy();
        let words: Vec<&str> = words
            .split_whitespace()
            .map(|word| if word == "CHART" { &folder } else { word })
            .collect();
        let home = self.cluster.dir.join("helm");
        let done = Command::new(&self.program)
            .args(&words)
            .args(["--namespace", SPACE])
            .env("KUBECONFIG", self.cluster.kubeconfig())
            .env("HELM_CONFIG_HOME", home.join("config"))
            .env("HELM_CACHE_HOME", home.join("cache"))
            .env("HELM_DATA_HOME", home.join("data"))
            .output()?;
        let printed = String::from_utf8_lossy(&done.stdout).into_owned();
        let failed = String::from_utf8_lossy(&done.stderr);
        ensure(
            done.status.success(),
            format!("helm {}: {failed}{printed}", words.join(" ")),
        )?;
        Ok(printed)
    }

    fn get(&self, words: &str) -> Result<Value, Failure> {
        self.cluster.get(&format!("{words} --namespace {SPACE}"))
    }

    fn inside(&self, member: &str, words: &str) -> Result<String, Failure> {
        let command = format!("exec --namespace {SPACE} {member} -- /program {words}");
        Ok(self.cluster.kubectl(&command)?.trim().to_owned())
    }

    fn password(&self, member: &str) -> Result<String, Failure> {
        let variables = self.inside(member, "env")?;
        let mut lines = variables.lines();
        let found = lines.find_map(|line| line.strip_prefix("PASSWORD="));
        let found = found.ok_or("no password reached the container")?;
        ensure(found.len() == 24, "the password is one of 24 characters")?;
        Ok(found.to_owned())
    }

    fn members_are_apart(&self) -> Result<(), Failure> {
        let [first, second] = MEMBERS.map(|it| self.get(&format!("pod {it}")));
        let (first, second) = (first?, second?);
        let (first, second) = (&first["spec"]["nodeName"], &second["spec"]["nodeName"]);
        ensure(first != second, format!("both members are on {first}"))
    }

    /// Each member finds what it was told to keep.
    fn has_its_data(&self) -> Result<(), Failure> {
        for member in MEMBERS {
            let word = self.inside(member, "cat /data/word")?;
            ensure(word == member, format!("{member} has the data of `{word}`"))?;
        }
        Ok(())
    }

    fn greets(&self, greeting: &str) -> Result<(), Failure> {
        for member in MEMBERS {
            let found = self.inside(member, "cat /settings/greeting")?;
            ensure(found == greeting, format!("{member} greets with {found}"))?;
        }
        self.has_its_data()
    }

    fn uid(&self, member: &str) -> Result<Value, Failure> {
        Ok(self.get(&format!("pod {member}"))?["metadata"]["uid"].clone())
    }

    /// Waits until a pod of that name that is not the one of `before` is ready.
    fn another(&self, member: &str, before: &Value) -> Result<(), Failure> {
        eventually(&format!("another {member}"), 60, || {
            let pod = self.get(&format!("pod {member}"))?;
            let conditions = pod["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            let is_ready = conditions.any(|it| it["type"] == "Ready" && it["status"] == "True");
            let is_another = pod["metadata"]["uid"] != *before;
            ensure(is_another && is_ready, pod["status"].to_string())
        })
    }

    fn evict(&self, member: &str) -> Result<String, Failure> {
        let eviction = format!(
            "{{\"apiVersion\":\"policy/v1\",\"kind\":\"Eviction\",\
             \"metadata\":{{\"name\":\"{member}\",\"namespace\":\"{SPACE}\"}}}}"
        );
        let path = format!("/api/v1/namespaces/{SPACE}/pods/{member}/eviction");
        let words = format!("create --raw {path} -f -");
        self.cluster.kubectl_with(&words, &eviction)
    }

    /// One member may go; the other not until it is back, with its data.
    fn keeps_to_its_budget(&self) -> Result<(), Failure> {
        let [first, second] = MEMBERS;
        let before = self.uid(first)?;
        eventually("the budget to allow one", 20, || {
            let budget = self.get("pdb db")?;
            let status = &budget["status"];
            ensure(status["disruptionsAllowed"] == 1, status.to_string())
        })?;
        self.evict(first)?;
        match self.evict(second) {
            Ok(_) => return Err("both members were evicted".into()),
            Err(error) => ensure(
                error.to_string().contains("disruption budget"),
                error.to_string(),
            )?,
        }
        self.another(first, &before)?;
        self.has_its_data()
    }

    /// The last member first, and the one before it only when that is ready.
    fn rolls_member_by_member(&self) -> Result<(), Failure> {
        self.helm("upgrade db CHART --set settings.greeting=good-day --wait --timeout 120s")?;
        self.greets("good-day")?;
        let [first, second] = MEMBERS.map(|it| self.get(&format!("pod {it}")));
        let (first, second) = (first?, second?);
        let made = first["metadata"]["creationTimestamp"].as_str();
        let conditions = second["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let ready = conditions.find(|it| it["type"] == "Ready" && it["status"] == "True");
        let ready = ready.and_then(|it| it["lastTransitionTime"].as_str());
        ensure(
            ready.is_some() && made >= ready,
            format!("db-0 was made at {made:?}, db-1 ready at {ready:?}"),
        )
    }

    /// A member that is not wanted for a while finds its data when it is again.
    fn shrinks_and_grows(&self) -> Result<(), Failure> {
        self.helm("upgrade db CHART --set replicas=1 --wait --timeout 60s")?;
        eventually("one member alone", 30, || {
            let pods = self.get("pods")?;
            let count = pods["items"].as_array().map(Vec::len);
            ensure(count == Some(1), format!("{count:?} pods"))
        })?;
        self.helm("upgrade db CHART --reset-values --wait --timeout 60s")?;
        self.has_its_data()?;
        // Without grace, as when nobody knows whether the node still runs it.
        let last = MEMBERS[1];
        let before = self.uid(last)?;
        self.cluster.kubectl(&format!(
            "delete pod {last} --namespace {SPACE} --force --grace-period=0"
        ))?;
        self.another(last, &before)?;
        self.has_its_data()
    }
}
