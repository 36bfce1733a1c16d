//! Command-line options for admission plugins; the flags are kube-apiserver's.

use control_types::nearest::nearest;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use control_admission::{ChoiceError, Plugin, Plugins, Settings, Stay};
use ipnet::IpNet;

use crate::error::Error;

/// Admission plugins.
#[derive(Args)]
#[group(id = "admission")]
pub struct Options {
    /// Admission plugins that are on besides the usual ones.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    enable_admission_plugins: Vec<String>,
    /// Usual admission plugins that are off.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    disable_admission_plugins: Vec<String>,
    /// All admission plugins that are on; better say which are to be on or off besides.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAMES",
        hide = true,
        conflicts_with_all = ["enable_admission_plugins", "disable_admission_plugins"]
    )]
    admission_control: Vec<String>,
    /// Ranges of addresses that Services may have as external IPs although the plugin
    /// DenyServiceExternalIPs is on.
    #[arg(long, value_delimiter = ',', value_name = "RANGES")]
    service_external_ip_ranges: Vec<IpNet>,
    /// AdmissionConfiguration with the configuration of plugins.
    #[arg(long, value_name = "FILE")]
    admission_control_config_file: Option<PathBuf>,
    /// Seconds for which pods stay on a node that is not ready, unless they say it.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    default_not_ready_toleration_seconds: i64,
    /// Seconds for which pods stay on a node that cannot be reached, unless they say it.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    default_unreachable_toleration_seconds: i64,
}

impl Options {
    /// Enables DenyServiceExternalIPs, unless the command line configures it or all
    /// plugins.
    pub fn deny_external_ips(&mut self) {
        let name = Plugin::DenyServiceExternalIPs.name();
        let mut chosen = self
            .disable_admission_plugins
            .iter()
            .chain(&self.enable_admission_plugins);
        if self.admission_control.is_empty() && !chosen.any(|one| one == name) {
            self.enable_admission_plugins.push(name.to_owned());
        }
    }

    /// Returns the settings for the API server.
    ///
    /// # Errors
    /// Unknown plugins, with suggestions; unusable files.
    pub fn settings(&self) -> Result<Arc<Settings>, Error> {
        let chosen = if self.admission_control.is_empty() {
            Plugins::choose(
                &self.enable_admission_plugins,
                &self.disable_admission_plugins,
            )
        } else {
            tracing::warn!(
                "--admission-control is old: use --enable-admission-plugins and --disable-admission-plugins"
            );
            Plugins::only(&self.admission_control)
        };
        let plugins = chosen.map_err(|error| Error::Option(told(&error)))?;
        if plugins.has(Plugin::AlwaysDeny) {
            tracing::warn!("the admission plugin AlwaysDeny refuses every change");
        }
        let stay = Stay {
            not_ready: self.default_not_ready_toleration_seconds,
            unreachable: self.default_unreachable_toleration_seconds,
        };
        let file = self.admission_control_config_file.as_deref();
        let mut settings = Settings::new(plugins, stay, file)
            .map_err(|error| Error::Option(crate::run::all_causes(&error)))?;
        settings
            .external_ip_ranges
            .clone_from(&self.service_external_ip_ranges);
        Ok(Arc::new(settings))
    }
}

fn told(error: &ChoiceError) -> String {
    let names = Plugin::ALL.iter().map(|one| one.name());
    match error {
        ChoiceError::Unknown { name, .. } => match nearest(name, names) {
            Some(near) => format!("{error}: did you mean {near}?"),
            None => error.to_string(),
        },
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: Options,
    }

    fn settings(flags: &[&str]) -> Result<Arc<Settings>, String> {
        let command = std::iter::once(&"orlop").chain(flags);
        let command = Command::try_parse_from(command).map_err(|error| error.to_string())?;
        command
            .options
            .settings()
            .map_err(|error| error.to_string())
    }

    #[test]
    fn plugins_are_chosen_by_kube_apiservers_names() {
        let settings = settings(&[
            "--enable-admission-plugins=AlwaysPullImages,NodeRestriction",
            "--disable-admission-plugins=LimitRanger",
            "--default-not-ready-toleration-seconds=10",
        ])
        .expect("right");
        assert!(settings.plugins.has(Plugin::AlwaysPullImages));
        assert!(!settings.plugins.has(Plugin::LimitRanger));
        assert_eq!(
            (settings.stay.not_ready, settings.stay.unreachable),
            (10, 300)
        );
    }

    #[test]
    fn a_whole_cluster_denies_external_ips_unless_told_otherwise() {
        let chosen = |flags: &[&str]| {
            let command = std::iter::once(&"orlop").chain(flags);
            let mut command = Command::try_parse_from(command).expect("right");
            command.options.deny_external_ips();
            let settings = command.options.settings().expect("right");
            settings.plugins.has(Plugin::DenyServiceExternalIPs)
        };
        assert!(chosen(&[]));
        assert!(chosen(&["--enable-admission-plugins=AlwaysPullImages"]));
        assert!(!chosen(&[
            "--disable-admission-plugins=DenyServiceExternalIPs"
        ]));
        assert!(!chosen(&["--admission-control=NodeRestriction"]));
    }

    #[test]
    fn a_name_of_none_is_refused_with_the_one_that_was_meant() {
        let why = settings(&["--enable-admission-plugins=AlwaysPullImage"]).expect_err("unknown");
        assert!(
            why.contains("enable-admission-plugins plugin \"AlwaysPullImage\" is unknown: did you mean AlwaysPullImages?"),
            "{why}"
        );
        let why = settings(&["--disable-admission-plugins=nothing-like-it"]).expect_err("unknown");
        assert!(why.ends_with("is unknown"), "{why}");
        assert!(
            settings(&[
                "--admission-control=Priority",
                "--enable-admission-plugins=Priority"
            ])
            .is_err()
        );
        assert!(
            settings(&["--enable-admission-plugins=EventRateLimit"]).is_err(),
            "without limits"
        );
        assert!(settings(&["--admission-control-config-file=/nowhere"]).is_err());
    }
}
