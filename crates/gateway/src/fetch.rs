//! Fetches addresses that callers name, without becoming their way into the
//! operator's network.
//!
//! Each hop is checked by itself: scheme, no credentials, port, and every
//! address that the name resolves to; the connection then goes to exactly the
//! checked addresses. Time and size are bounded. What the bytes are is decided
//! by whoever asked for them, from the bytes.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use providers::driver::guard::{embedded_v4, is_public};
use tokio::io::AsyncWriteExt as _;
use url::{Host, Url};

use crate::config::FetchRules;

/// Redirects followed at most.
const REDIRECTS: usize = 3;
/// Until the first byte of each hop's answer.
const FIRST_BYTE: Duration = Duration::from_secs(10);
/// For everything.
const IN_ALL: Duration = Duration::from_secs(30);

/// Why an address could not be fetched. The texts are for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The rules forbid it.
    #[error("{0}")]
    Blocked(&'static str),
    /// It did not work.
    #[error("{0}")]
    Failed(String),
    /// The answer is longer than allowed.
    #[error("the file is larger than {} MB", limit_bytes / 1_000_000)]
    TooLarge {
        /// The limit.
        limit_bytes: u64,
    },
}

/// Why what is at an address could not be saved.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// It could not be fetched.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// It could not be written.
    #[error(transparent)]
    File(#[from] std::io::Error),
}

/// Fetches for callers, by the operator's rules.
#[derive(Clone)]
pub struct Fetcher {
    rules: FetchRules,
}

impl Fetcher {
    /// A fetcher that keeps these rules.
    pub fn new(rules: FetchRules) -> Self {
        Self { rules }
    }

    /// The bytes at `address`, at most `limit_bytes` of them.
    pub async fn get(&self, address: &str, limit_bytes: u64) -> Result<Bytes, FetchError> {
        let read = async {
            let answer = self.follow(address).await?;
            read(answer, limit_bytes).await
        };
        tokio::time::timeout(IN_ALL, read)
            .await
            .unwrap_or_else(|_| Err(late()))
    }

    /// Writes the bytes at `address`, at most `limit_bytes` of them, to a file as
    /// they arrive.
    pub async fn save(
        &self,
        address: &str,
        limit_bytes: u64,
        file: &mut tokio::fs::File,
    ) -> Result<(), SaveError> {
        let save = async {
            let answer = self.follow(address).await?;
            save(answer, limit_bytes, file).await
        };
        tokio::time::timeout(IN_ALL, save)
            .await
            .unwrap_or_else(|_| Err(late().into()))
    }

    /// The answer at the end of all redirects.
    async fn follow(&self, address: &str) -> Result<reqwest::Response, FetchError> {
        let mut url = Url::parse(address)
            .map_err(|_| FetchError::Blocked("it is not an absolute address"))?;
        for _ in 0..=REDIRECTS {
            let answer = self.hop(&url).await?;
            if !answer.status().is_redirection() {
                return Ok(answer);
            }
            let target = answer
                .headers()
                .get(reqwest::header::LOCATION)
                .and_then(|value| value.to_str().ok());
            url = target
                .and_then(|target| url.join(target).ok())
                .ok_or_else(|| FetchError::Failed("the server redirects to nowhere".into()))?;
        }
        Err(FetchError::Failed(
            "the server redirects more than 3 times".into(),
        ))
    }

    /// One request, to addresses that were checked.
    async fn hop(&self, url: &Url) -> Result<reqwest::Response, FetchError> {
        let (host, addresses) = self.check(url).await?;
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(FIRST_BYTE)
            .user_agent(concat!("mediagate/", env!("CARGO_PKG_VERSION")))
            .resolve_to_addrs(&host, &addresses)
            .build()
            .map_err(|error| FetchError::Failed(plain(&error)))?;
        tokio::time::timeout(FIRST_BYTE, client.get(url.clone()).send())
            .await
            .map_err(|_| FetchError::Failed("the server did not answer within 10 seconds".into()))?
            .map_err(|error| FetchError::Failed(plain(&error)))
    }

    /// The host's name and its addresses, all of them allowed.
    async fn check(&self, url: &Url) -> Result<(String, Vec<SocketAddr>), FetchError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(FetchError::Blocked(
                "only http and https addresses are fetched",
            ));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(FetchError::Blocked(
                "an address with credentials in it is not fetched",
            ));
        }
        let port = url.port_or_known_default().unwrap_or(0);
        let (name, addresses) = match url.host() {
            Some(Host::Ipv4(ip)) => (ip.to_string(), vec![IpAddr::V4(ip)]),
            Some(Host::Ipv6(ip)) => (ip.to_string(), vec![IpAddr::V6(ip)]),
            Some(Host::Domain(name)) => (name.to_owned(), resolve(name).await?),
            None => return Err(FetchError::Blocked("the address names no host")),
        };
        for address in &addresses {
            self.check_address(*address, port)?;
        }
        Ok((
            name,
            addresses
                .into_iter()
                .map(|ip| SocketAddr::new(ip, port))
                .collect(),
        ))
    }

    fn check_address(&self, address: IpAddr, port: u16) -> Result<(), FetchError> {
        let address = embedded_v4(address);
        if self
            .rules
            .allow_networks
            .iter()
            .any(|network| network.contains(&address))
        {
            return Ok(());
        }
        if !is_public(address) {
            return Err(FetchError::Blocked(
                "the address does not lead to a public host",
            ));
        }
        if !self.rules.allow_ports.contains(&port) {
            return Err(FetchError::Blocked(
                "the address names a port that is not fetched from",
            ));
        }
        Ok(())
    }
}

async fn resolve(name: &str) -> Result<Vec<IpAddr>, FetchError> {
    let found = tokio::time::timeout(FIRST_BYTE, tokio::net::lookup_host((name, 0)))
        .await
        .map_err(|_| {
            FetchError::Failed("the host's name did not resolve within 10 seconds".into())
        })?
        .map_err(|_| FetchError::Failed("the host's name does not resolve".into()))?;
    let addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    if addresses.is_empty() {
        return Err(FetchError::Failed(
            "the host's name does not resolve".into(),
        ));
    }
    Ok(addresses)
}

fn late() -> FetchError {
    FetchError::Failed("the file did not arrive within 30 seconds".into())
}

async fn save(
    mut answer: reqwest::Response,
    limit_bytes: u64,
    file: &mut tokio::fs::File,
) -> Result<(), SaveError> {
    check(&answer, limit_bytes)?;
    let mut length = 0;
    while let Some(chunk) = answer.chunk().await.map_err(|error| broken(&error))? {
        length += chunk.len() as u64;
        if length > limit_bytes {
            return Err(FetchError::TooLarge { limit_bytes }.into());
        }
        file.write_all(&chunk).await?;
    }
    Ok(file.flush().await?)
}

async fn read(mut answer: reqwest::Response, limit_bytes: u64) -> Result<Bytes, FetchError> {
    check(&answer, limit_bytes)?;
    let mut bytes = BytesMut::new();
    while let Some(chunk) = answer.chunk().await.map_err(|error| broken(&error))? {
        if (bytes.len() + chunk.len()) as u64 > limit_bytes {
            return Err(FetchError::TooLarge { limit_bytes });
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.freeze())
}

fn broken(error: &reqwest::Error) -> FetchError {
    FetchError::Failed(plain(error))
}

/// Refuses an answer that is no file, or says that it is too long.
fn check(answer: &reqwest::Response, limit_bytes: u64) -> Result<(), FetchError> {
    if !answer.status().is_success() {
        return Err(FetchError::Failed(format!(
            "the server answers with status {}",
            answer.status().as_u16()
        )));
    }
    if answer
        .content_length()
        .is_some_and(|length| length > limit_bytes)
    {
        return Err(FetchError::TooLarge { limit_bytes });
    }
    Ok(())
}

/// What a caller may know of a client error: its kind, no addresses.
fn plain(error: &reqwest::Error) -> String {
    let what = if error.is_connect() {
        "the server cannot be reached"
    } else if error.is_timeout() {
        "the server took too long"
    } else if error.is_body() || error.is_decode() {
        "the connection broke before the file had arrived"
    } else {
        "the request failed"
    };
    what.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(fetcher: &Fetcher, address: &str) -> Result<(), FetchError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            fetcher
                .check(&Url::parse(address).unwrap())
                .await
                .map(|_| ())
        })
    }

    #[test]
    fn only_public_hosts_and_usual_ports() {
        let fetcher = Fetcher::new(FetchRules::default());
        for fine in [
            "https://8.8.8.8/a.png",
            "http://1.1.1.1/",
            "https://[2606:4700:4700::1111]/",
        ] {
            assert_eq!(verdict(&fetcher, fine), Ok(()), "{fine}");
        }
        for bad in [
            "http://127.0.0.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://localhost/",
            "http://10.1.2.3/",
            "http://192.168.0.1/",
            "http://172.16.0.1/",
            "http://169.254.169.254/latest/meta-data",
            "http://100.64.0.1/",
            "http://0.0.0.0/",
            "http://224.0.0.1/",
            "http://255.255.255.255/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:10.0.0.1]/",
            "http://[64:ff9b::7f00:1]/",
            "http://[2002:7f00:1::]/",
            "http://[fe80::1]/",
            "http://[fc00::1]/",
            "http://[ff02::1]/",
            "http://[::]/",
            "http://8.8.8.8:22/",
            "https://8.8.8.8:8443/",
            "ftp://8.8.8.8/",
            "file:///etc/passwd",
            "http://user@8.8.8.8/",
            "http://user:pw@8.8.8.8/",
            "http://192.0.2.1/",
            "http://198.18.0.1/",
            "http://240.0.0.1/",
        ] {
            assert!(
                matches!(verdict(&fetcher, bad), Err(FetchError::Blocked(_))),
                "{bad}"
            );
        }
    }

    #[test]
    fn an_allowed_network_lifts_address_and_port() {
        let rules = FetchRules {
            allow_networks: vec!["127.0.0.0/8".parse().unwrap()],
            ..FetchRules::default()
        };
        let fetcher = Fetcher::new(rules);
        assert_eq!(verdict(&fetcher, "http://127.0.0.1:9999/"), Ok(()));
        assert_eq!(verdict(&fetcher, "http://[::ffff:127.0.0.1]:9999/"), Ok(()));
        assert!(verdict(&fetcher, "http://10.0.0.1/").is_err());
    }
}
