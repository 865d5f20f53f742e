//! Addresses of Postgres servers, and connecting to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::stream::poll_fn;
use tokio_postgres::Config;
use tokio_postgres::config::Host;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::StoreError;
use crate::pg_session::notify_channel::NotifyChannel;
use crate::pg_session::{LOCK_MS, PgSession, STATEMENT_MS};

/// Connection timeout per host.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1500);
/// How long sent bytes may stay unacknowledged.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(5);
/// TCP keepalive: idle time, interval, retries.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(10), Duration::from_secs(5), 3);

/// One server, or several of which one accepts writes. Cheap to clone.
#[derive(Clone)]
pub(crate) struct PostgresServer(Arc<ServerInner>);

struct ServerInner {
    /// The settings of each host.
    hosts: Vec<Config>,
    /// The host that answered last.
    latest: AtomicUsize,
    tls: MakeRustlsConnect,
}

impl PostgresServer {
    pub(crate) fn new(url: &str) -> Result<Self, StoreError> {
        let config: Config = url.parse().map_err(StoreError::Postgres)?;
        // If some certificates are unreadable, connecting fails with a reason when the server needs
        // them. It is an error at once only if none of the system's can be read.
        let (tls, _unreadable) = MakeRustlsConnect::with_native_certs()
            .map_err(|error| StoreError::Tls(format!("{error:?}")))?;
        Ok(Self(Arc::new(ServerInner {
            hosts: each_host(&config),
            latest: AtomicUsize::new(0),
            tls,
        })))
    }

    /// Connects to the first suitable host that answers, starting with the last good one. A host
    /// that does not answer costs only its timeout.
    pub(crate) fn connect(&self) -> Result<PgSession, StoreError> {
        let hosts = &self.0.hosts;
        let first = self.0.latest.load(Ordering::Relaxed);
        let mut last_error = StoreError::TimedOut;
        for index in (first..hosts.len()).chain(0..first) {
            match self.connect_to(&hosts[index]) {
                Ok(session) => {
                    self.0.latest.store(index, Ordering::Relaxed);
                    return Ok(session);
                }
                Err(error) => last_error = error,
            }
        }
        Err(last_error)
    }

    /// A connection that the caller's runtime drives, to the first suitable host that answers.
    pub(crate) async fn open_channel(&self) -> Result<NotifyChannel, StoreError> {
        let mut last_error = StoreError::TimedOut;
        for host in &self.0.hosts {
            let connecting =
                tokio::time::timeout(CONNECT_TIMEOUT, host.connect(self.0.tls.clone()));
            match connecting.await {
                Ok(Ok((client, mut connection))) => {
                    let messages = poll_fn(move |context| connection.poll_message(context));
                    return NotifyChannel::open(client, Box::pin(messages)).await;
                }
                Ok(Err(error)) => last_error = error.into(),
                Err(_) => {}
            }
        }
        Err(last_error)
    }

    fn connect_to(&self, host: &Config) -> Result<PgSession, StoreError> {
        // Each session has its own runtime, on which its thread blocks with a deadline for every
        // wait.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|_| StoreError::Closed)?;
        // The driver's own limit covers the TCP connection and not the handshake.
        let connect =
            async { tokio::time::timeout(CONNECT_TIMEOUT, host.connect(self.0.tls.clone())).await };
        let (client, connection) = runtime
            .block_on(connect)
            .map_err(|_| StoreError::TimedOut)??;
        let mut session = PgSession::new(
            runtime,
            client,
            connection,
            Instant::now() + CONNECT_TIMEOUT,
        );
        // For statements outside a transaction; transactions set their own.
        session.script(&format!(
            "SET statement_timeout = {STATEMENT_MS}; SET lock_timeout = {LOCK_MS}"
        ))?;
        session.read_server_run()?;
        Ok(session)
    }
}

/// The servers in a URL, without what may be secret in it.
pub(crate) fn names_in(url: &str) -> String {
    let Ok(config) = url.parse::<Config>() else {
        return "an address that cannot be read".into();
    };
    let hosts = each_host(&config);
    let names = hosts.iter().map(|host| {
        let port = host.get_ports().first().copied().unwrap_or(5432);
        let address = host.get_hostaddrs().first().map(ToString::to_string);
        let name = match host.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            #[cfg(unix)]
            Some(Host::Unix(path)) => path.display().to_string(),
            None => address.unwrap_or_default(),
        };
        format!("{name}:{port}")
    });
    names.collect::<Vec<_>>().join(", ")
}

/// A configuration per host.
fn each_host(config: &Config) -> Vec<Config> {
    let count = config.get_hosts().len().max(config.get_hostaddrs().len());
    (0..count).map(|index| host_config(config, index)).collect()
}

fn host_config(config: &Config, index: usize) -> Config {
    let mut host = Config::new();
    match config.get_hosts().get(index) {
        Some(Host::Tcp(name)) => drop(host.host(name)),
        #[cfg(unix)]
        Some(Host::Unix(path)) => drop(host.host_path(path)),
        None => {}
    }
    if let Some(address) = config.get_hostaddrs().get(index) {
        host.hostaddr(*address);
    }
    let ports = config.get_ports();
    if let Some(port) = ports.get(index).or_else(|| ports.first()) {
        host.port(*port);
    }
    if let Some(user) = config.get_user() {
        host.user(user);
    }
    if let Some(password) = config.get_password() {
        host.password(password);
    }
    if let Some(name) = config.get_dbname() {
        host.dbname(name);
    }
    if let Some(options) = config.get_options() {
        host.options(options);
    }
    host.application_name(config.get_application_name().unwrap_or("mediagate"))
        .ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .target_session_attrs(config.get_target_session_attrs())
        .channel_binding(config.get_channel_binding())
        .connect_timeout(
            config
                .get_connect_timeout()
                .copied()
                .unwrap_or(CONNECT_TIMEOUT),
        )
        // By default a connection to a host that has vanished is kept for many minutes.
        .tcp_user_timeout(
            config
                .get_tcp_user_timeout()
                .copied()
                .unwrap_or(TCP_USER_TIMEOUT),
        )
        .keepalives_idle(KEEPALIVE.0)
        .keepalives_interval(KEEPALIVE.1)
        .keepalives_retries(KEEPALIVE.2);
    host
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_without_user_and_password() {
        for (url, names) in [
            ("postgres://me:secret@a:1,b:2/db", "a:1, b:2"),
            ("postgres://me:secret@a/db", "a:5432"),
            ("secret", "an address that cannot be read"),
        ] {
            assert_eq!(names_in(url), names);
        }
    }

    #[test]
    fn each_host_has_its_own_port_and_the_shared_settings() {
        let config: Config = "postgres://me:secret@a:1,b:2/db?target_session_attrs=read-write"
            .parse()
            .unwrap();
        let hosts = each_host(&config);
        let names: Vec<_> = hosts
            .iter()
            .map(|host| (host.get_hosts().to_vec(), host.get_ports().to_vec()))
            .collect();
        let tcp = |name: &str| vec![Host::Tcp(name.to_owned())];
        assert_eq!(names, [(tcp("a"), vec![1]), (tcp("b"), vec![2])]);
        for host in hosts {
            assert_eq!(host.get_user(), Some("me"));
            assert_eq!(host.get_password(), Some("secret".as_bytes()));
            assert_eq!(host.get_dbname(), Some("db"));
            assert_eq!(
                host.get_target_session_attrs(),
                config.get_target_session_attrs()
            );
        }
    }
}
