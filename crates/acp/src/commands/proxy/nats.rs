//! `acp proxy --nats`: sessions are published, tasks are taken from the queue.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use acp_nats::aggregate::AggregateLimits;
use acp_nats::{Access, Nats, NatsSettings, NatsStatus, Style, Subjects, TaskSettings};
use acp_proxy::metrics::Metrics;
use acp_proxy::ops::Health;
use acp_proxy::{ClientSource, Outcome, Proxy, ProxyLog};
use anyhow::{Context, ensure};
use tokio::sync::watch;

use crate::talk::duration;

/// Where NATS is, and who we are there.
#[derive(clap::Args, Clone, Debug)]
pub struct AccessArgs {
    /// Credentials: a file with a JWT and a seed
    #[arg(long, value_name = "FILE", env = "ACP_NATS_CREDS", global = true, help_heading = "NATS access")]
    nats_creds: Option<PathBuf>,
    /// Credentials: a token
    #[arg(
        long,
        value_name = "TOKEN",
        env = "ACP_NATS_TOKEN",
        hide_env_values = true,
        global = true,
        help_heading = "NATS access"
    )]
    nats_token: Option<String>,
    /// Credentials: a user
    #[arg(long, value_name = "NAME", env = "ACP_NATS_USER", global = true, help_heading = "NATS access")]
    nats_user: Option<String>,
    /// Credentials: the user's password
    #[arg(
        long,
        value_name = "PASSWORD",
        env = "ACP_NATS_PASSWORD",
        hide_env_values = true,
        global = true,
        help_heading = "NATS access"
    )]
    nats_password: Option<String>,
    /// Credentials: a file with the seed of an nkey
    #[arg(long, value_name = "FILE", env = "ACP_NATS_NKEY", global = true, help_heading = "NATS access")]
    nats_nkey: Option<PathBuf>,
    /// Certificates to trust, besides the system's
    #[arg(long, value_name = "FILE", env = "ACP_NATS_CA", global = true, help_heading = "NATS access")]
    nats_ca: Option<PathBuf>,
    /// The client certificate to show
    #[arg(long, value_name = "FILE", env = "ACP_NATS_CERT", global = true, help_heading = "NATS access")]
    nats_cert: Option<PathBuf>,
    /// The key of the client certificate
    #[arg(long, value_name = "FILE", env = "ACP_NATS_KEY", global = true, help_heading = "NATS access")]
    nats_key: Option<PathBuf>,
    /// Require TLS, as tls:// in the address does
    #[arg(long, global = true, help_heading = "NATS access")]
    nats_tls: bool,
    /// The names of the subjects of tasks: acp (acp.v1.agent.NAME.task) or tasks (agent.tasks.NAME)
    #[arg(long, value_name = "STYLE", default_value = "acp", global = true, help_heading = "NATS")]
    subject_style: Style,
}

impl AccessArgs {
    /// The access to NATS at an address. What is incomplete, also in the environment, concerns only who uses NATS.
    pub fn access(&self, url: &str) -> anyhow::Result<Access> {
        ensure!(
            self.nats_user.is_some() == self.nats_password.is_some(),
            "a NATS user needs a password, and a password a user: --nats-user (ACP_NATS_USER) and --nats-password (ACP_NATS_PASSWORD)"
        );
        ensure!(
            self.nats_cert.is_some() == self.nats_key.is_some(),
            "a certificate needs its key, and a key its certificate: --nats-cert (ACP_NATS_CERT) and --nats-key (ACP_NATS_KEY)"
        );
        Ok(Access {
            url: url.to_owned(),
            creds: self.nats_creds.clone(),
            token: self.nats_token.clone(),
            user: self.nats_user.clone().zip(self.nats_password.clone()),
            nkey: self.nats_nkey.clone(),
            ca: self.nats_ca.clone(),
            identity: self.nats_cert.clone().zip(self.nats_key.clone()),
            tls: self.nats_tls || url.starts_with("tls://"),
        })
    }

    /// The names of the subjects.
    pub fn subjects(&self) -> Subjects {
        Subjects { style: self.subject_style }
    }
}

/// What `acp proxy` does with NATS.
#[derive(clap::Args, Clone, Debug)]
pub struct NatsArgs {
    /// Publish what happens in sessions to JetStream, and take tasks from its queue: nats://HOST:PORT, tls://HOST:PORT,
    /// or several with commas. Without --listen no other clients are served
    #[arg(long, value_name = "URL", help_heading = "NATS")]
    nats: Option<String>,
    /// Who we are there.
    #[command(flatten)]
    access: AccessArgs,
    /// The name of the task queue (the name in --agent, unless this is given)
    #[arg(long, value_name = "NAME", requires = "nats", help_heading = "NATS")]
    queue: Option<String>,
    /// Run at most this many tasks at once; 0 takes none
    #[arg(long, value_name = "COUNT", default_value_t = 4, help_heading = "NATS")]
    tasks: usize,
    /// Accept the mcpServers of tasks. Everyone who may submit tasks can then start programs on this machine
    #[arg(long, help_heading = "NATS")]
    task_mcp: bool,
    /// Also send results to this subject and those below it if a task asks for that in replyTo; inboxes and
    /// acp.reply.TASK are always allowed
    #[arg(long, value_name = "SUBJECT", help_heading = "NATS")]
    reply_to: Vec<String>,
    /// Publish each chunk of text by itself instead of joining those that arrive within 150 ms
    #[arg(long, help_heading = "NATS")]
    no_aggregate: bool,
    /// Also publish every frame unchanged on acp.v1.live.SESSION, which is not stored
    #[arg(long, help_heading = "NATS")]
    live: bool,
    /// Keep events in this folder until NATS has them; each proxy needs its own
    #[arg(long, value_name = "DIR", env = "ACP_SPOOL", help_heading = "NATS")]
    spool: Option<PathBuf>,
    /// While NATS is gone, keep at most this many MiB of a session there, then hold its agent back
    #[arg(long, value_name = "MIB", default_value_t = 256, help_heading = "NATS")]
    spool_limit: u64,
    /// Send at most this many events of a session ahead of NATS's acknowledgements
    #[arg(long, value_name = "COUNT", default_value_t = 1024, help_heading = "NATS")]
    nats_window: usize,
    /// Copies of each stream that is created, in a cluster
    #[arg(long, value_name = "COUNT", default_value_t = 1, help_heading = "NATS")]
    nats_replicas: usize,
    /// Deliver a task again if its proxy was silent for this long
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration, help_heading = "NATS")]
    ack_wait: Duration,
    /// If the proxy that runs a task cannot be reached for this long, report the task as interrupted
    #[arg(long, value_name = "TIME", default_value = "40s", value_parser = duration, help_heading = "NATS")]
    lost_after: Duration,
    /// Wait this long for the answer to a permission request, then reject it
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration, help_heading = "NATS")]
    ask_for: Duration,
    /// Keep a permission request open for that time even if nobody is listening, so that acp tasks approve can answer
    /// it later
    #[arg(long, help_heading = "NATS")]
    ask_hold: bool,
    /// Close a task's session after it was idle for this long
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration, help_heading = "NATS")]
    session_idle: Duration,
    /// Keep at most this many idle sessions open; each has its own agent
    #[arg(long, value_name = "COUNT", default_value_t = 16, help_heading = "NATS")]
    idle_sessions: usize,
    /// After SIGTERM, let running tasks go on for this long before they are cancelled
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration, help_heading = "NATS")]
    task_grace: Duration,
}

/// How long the last events may take to be stored when we go; what is not stays in the spool.
const LAST_EVENTS: Duration = Duration::from_secs(5);

/// NATS, and how tasks are done.
pub struct Started {
    /// The hub.
    pub nats: Nats,
    work: Option<TaskSettings>,
}

impl NatsArgs {
    /// Whether what is said of NATS is complete, if it is wanted at all.
    pub fn check(&self) -> anyhow::Result<()> {
        self.nats.as_deref().map_or(Ok(()), |url| self.access.access(url).map(drop))
    }

    /// Whether there is NATS, which keeps what happens.
    pub fn is_wanted(&self) -> bool {
        self.nats.is_some()
    }

    /// Starts it, if it is wanted.
    pub async fn start(
        &self,
        proxy: &acp_proxy::ProxySettings,
        health: &Health,
        log: &ProxyLog,
    ) -> anyhow::Result<Option<Started>> {
        let Some(url) = &self.nats else {
            if std::env::var_os("ACP_NATS").is_some() {
                let words = "ACP_NATS is for acp tasks; this agent is not on NATS: --nats URL puts it there";
                log.info(words);
            }
            return Ok(None);
        };
        ensure!(self.ack_wait >= Duration::from_millis(300), "--ack-wait must be at least 300ms");
        let agent = self.queue.as_deref().unwrap_or(&proxy.agent_name);
        let settings = NatsSettings {
            access: self.access.access(url)?,
            agent: agent.to_owned(),
            subjects: self.access.subjects(),
            limits: if self.no_aggregate { AggregateLimits::none() } else { AggregateLimits::default() },
            window: self.nats_window,
            spool: self.spool.clone().map_or_else(|| default_spool(agent), Ok)?,
            spool_limit: self.spool_limit.max(1) * 1024 * 1024,
            replicas: self.nats_replicas,
            live: self.live,
        };
        let work = (self.tasks > 0).then(|| TaskSettings {
            at_once: self.tasks,
            ack_wait: self.ack_wait,
            lost_after: self.lost_after,
            rules: proxy.duties.rules.clone().unwrap_or_default(),
            task_mcp: self.task_mcp,
            reply_to: self.reply_to.clone(),
            work_dir: PathBuf::from(&proxy.options.work_dir),
            ask_for: self.ask_for,
            hold: self.ask_hold,
            idle: self.session_idle,
            most_idle: self.idle_sessions,
            grace: self.task_grace,
            ..TaskSettings::default()
        });
        let nats = Nats::start(settings, log.clone()).await?;
        count(&proxy.metrics, &nats);
        let watched = nats.clone();
        health.watch("nats", Arc::new(move || watched.not_ready()));
        let watched = nats.clone();
        health.watch("tasks", Arc::new(move || watched.trouble().agent));
        let watched = nats.clone();
        health.watch("queue", Arc::new(move || watched.trouble().queue));
        let watched = nats.clone();
        health.watch("spool", Arc::new(move || watched.spool_trouble()));
        Ok(Some(Started { nats, work }))
    }
}

/// Counts what NATS does.
fn count(metrics: &Metrics, nats: &Nats) {
    type Read = fn(NatsStatus) -> u64;
    let gauges: [(&str, &str, Read); 4] = [
        ("acp_nats_ready", "Whether events are being stored.", |report| u64::from(report.ready)),
        ("acp_nats_sessions", "Sessions that are published.", |report| report.sessions),
        ("acp_nats_events_waiting", "Events that are not stored yet.", |report| report.waiting),
        ("acp_nats_tasks_running", "Tasks that are running.", |report| report.tasks),
    ];
    let counters: [(&str, &str, Read); 5] = [
        ("acp_nats_events_stored_total", "Events that were stored.", |report| report.stored),
        ("acp_nats_sessions_fenced_total", "Sessions that another proxy took over.", |report| report.fenced),
        ("acp_nats_tasks_total", "Tasks that have ended.", |report| report.ended),
        ("acp_nats_dead_letters_total", "Tasks that became dead letters.", |report| report.dead),
        ("acp_nats_permissions_unanswered_total", "Permission requests that nobody answered.", |report| {
            report.unanswered
        }),
    ];
    for (name, help, read) in gauges {
        let nats = nats.clone();
        metrics.follow(metrics.gauge(name, help, &[]), move || read(nats.report()));
    }
    for (name, help, read) in counters {
        let nats = nats.clone();
        metrics.follow(metrics.counter(name, help, &[]), move || read(nats.report()));
    }
}

/// Serves clients, and tasks, until told to stop, or until the client on standard streams leaves.
pub async fn serve(
    started: Option<Started>,
    proxy: Proxy,
    source: Option<ClientSource>,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<Outcome> {
    let Some(Started { nats, work }) = started else {
        let source = source.context("--listen none needs --nats: nobody could come")?;
        return Ok(source.serve(Arc::new(proxy), stop).await?);
    };
    let proxy = Arc::new(proxy.observed_by(Arc::new(nats.clone())));
    // Tasks are taken until we are told to stop, or the client on standard streams leaves and takes us with it.
    let (leave, leaving) = watch::channel(false);
    let tasks = async {
        match work {
            Some(work) => nats.run_tasks(proxy.clone(), work, leaving).await,
            None => stopped(leaving).await,
        }
    };
    let clients = async {
        let outcome = match source {
            Some(source) => source.serve(proxy.clone(), stop.clone()).await.map_err(anyhow::Error::from),
            None => {
                stopped(stop.clone()).await;
                Ok(Outcome::Stopped)
            }
        };
        let _ = leave.send(true);
        outcome
    };
    let told = async {
        stopped(stop.clone()).await;
        let _ = leave.send(true);
        std::future::pending().await
    };
    let outcome = tokio::select! {
        (outcome, ()) = async { tokio::join!(clients, tasks) } => outcome,
        why = nats.fatal() => Err(anyhow::Error::msg(why)),
        never = told => never,
    };
    nats.flush(LAST_EVENTS).await;
    outcome
}

async fn stopped(mut stop: watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// A folder of this user for this agent.
fn default_spool(agent: &str) -> anyhow::Result<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let state = match state {
        Some(state) => state,
        None => {
            let home = std::env::var_os("HOME")
                .context("where may events wait? use --spool DIR (HOME is not set)")?;
            PathBuf::from(home).join(".local/state")
        }
    };
    Ok(state.join("acp").join("spool").join(acp_nats::subject::token(agent)))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        access: AccessArgs,
    }

    #[test]
    fn every_way_to_show_who_we_are_has_its_flags() {
        let access = |line: &str| {
            let words = std::iter::once("acp").chain(line.split_whitespace());
            let line = Line::try_parse_from(words).expect("known flags");
            line.access.access("nats://127.0.0.1:4222")
        };
        let all = "--nats-creds a.creds --nats-token t --nats-user me --nats-password pw --nats-nkey b.nk --nats-ca ca.pem \
                   --nats-cert c.pem --nats-key k.pem --nats-tls";
        let all = access(all).expect("complete");
        assert_eq!(all.creds, Some("a.creds".into()));
        assert_eq!((all.token.as_deref(), all.nkey), (Some("t"), Some("b.nk".into())));
        assert_eq!(all.user, Some(("me".to_owned(), "pw".to_owned())));
        assert_eq!((all.ca, all.tls), (Some("ca.pem".into()), true));
        assert_eq!(all.identity, Some(("c.pem".into(), "k.pem".into())));
        for half in ["--nats-user me", "--nats-password pw", "--nats-cert c.pem", "--nats-key k.pem"] {
            assert!(access(half).is_err(), "{half}");
        }
    }
}
