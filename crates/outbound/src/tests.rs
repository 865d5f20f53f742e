use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::Resolve as _;

use super::*;

fn usual_ports() -> OutboundRules {
    OutboundRules {
        allow_ports: Some(vec![80, 443]),
        ..OutboundRules::default()
    }
}

fn with_loopback() -> OutboundRules {
    OutboundRules {
        allow_networks: vec!["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()],
        ..usual_ports()
    }
}

fn check(rules: &OutboundRules, address: &str) -> Result<(), AddressRefusal> {
    AddressGuard::new(rules).check_url(&Url::parse(address).unwrap())
}

#[test]
fn only_public_hosts_and_usual_ports() {
    for url in [
        "https://8.8.8.8/a.png",
        "http://1.1.1.1/",
        "https://[2606:4700:4700::1111]/",
        "https://cdn.example.com/a.mp4?signature=1",
    ] {
        assert_eq!(check(&usual_ports(), url), Ok(()), "{url}");
    }
    for url in [
        "http://127.0.0.1/",
        "http://2130706433/",
        "http://0x7f.1/",
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
        "http://192.0.2.1/",
        "http://198.18.0.1/",
        "http://240.0.0.1/",
    ] {
        assert_eq!(
            check(&usual_ports(), url),
            Err(AddressRefusal::NotPublic),
            "{url}"
        );
    }
    for (url, refusal) in [
        ("http://8.8.8.8:22/", AddressRefusal::Port),
        ("https://8.8.8.8:8443/", AddressRefusal::Port),
        ("ftp://8.8.8.8/", AddressRefusal::Scheme),
        ("file:///etc/passwd", AddressRefusal::Scheme),
        ("http://user@8.8.8.8/", AddressRefusal::Credential),
        ("http://user:pw@8.8.8.8/", AddressRefusal::Credential),
    ] {
        assert_eq!(check(&usual_ports(), url), Err(refusal), "{url}");
    }
    let any_port = OutboundRules::default();
    assert_eq!(check(&any_port, "https://8.8.8.8:8443/"), Ok(()));
}

#[tokio::test]
async fn names_of_local_networks_are_not_passed_on() {
    let (public, local) = (usual_ports(), with_loopback());
    let link = |rules, name: &str| {
        AddressGuard::new(rules).check_link(&Url::parse(&format!("http://{name}/a.mp4")).unwrap())
    };
    for name in [
        "intranet",
        "intranet.",
        "INTRANET",
        "internal",
        "files.internal",
        "a.files.internal.",
        "nas.local",
        "nas.lan",
        "nas.home.arpa",
        "nas.localhost",
        "nas.localdomain",
        "nas.corp",
        "nas.home",
        "nas.private",
    ] {
        assert_eq!(
            link(&public, name),
            Err(AddressRefusal::NotPublic),
            "{name}"
        );
        // It may be in the operator's network.
        assert_eq!(link(&local, name), Ok(()), "{name}");
    }
    for name in [
        "cdn.example.com",
        "corp.example.com",
        "mylan.example",
        "local.io",
    ] {
        assert_eq!(link(&public, name), Ok(()), "{name}");
    }
    // A name of a network that is allowed has to resolve.
    let unknown = Url::parse("http://no-such-host.internal/a.mp4").unwrap();
    assert_eq!(
        AddressGuard::new(&local).check_host(&unknown).await,
        Err(AddressRefusal::NotPublic)
    );
}

#[test]
fn an_allowed_network_lifts_address_and_port() {
    let rules = with_loopback();
    assert_eq!(check(&rules, "http://127.0.0.1:9999/"), Ok(()));
    assert_eq!(check(&rules, "http://[::ffff:127.0.0.1]:9999/"), Ok(()));
    assert_eq!(
        check(&rules, "http://10.0.0.1/"),
        Err(AddressRefusal::NotPublic)
    );
}

#[tokio::test]
async fn a_name_is_as_good_as_the_worst_of_its_addresses() {
    let look_up = |rules: OutboundRules| {
        CheckedResolver::new(Arc::new(rules), true).resolve("localhost".parse().unwrap())
    };
    let error = look_up(usual_ports()).await.err().unwrap();
    assert_eq!(
        AddressRefusal::cause_of(error.as_ref()),
        Some(AddressRefusal::NotPublic)
    );
    assert!(look_up(with_loopback()).await.is_ok());
    let mixed = ["8.8.8.8:0", "127.0.0.1:0"].map(|address| address.parse().unwrap());
    let resolver = CheckedResolver::new(Arc::new(usual_ports()), true);
    assert_eq!(resolver.check(mixed), Err(AddressRefusal::NotPublic));
    assert_eq!(
        resolver.check([mixed[0]]).map(|allowed| allowed.len()),
        Ok(1)
    );
    let unusual_port = CheckedResolver::new(Arc::new(usual_ports()), false);
    assert_eq!(unusual_port.check([mixed[0]]), Err(AddressRefusal::Port));
}

/// A name is resolved once per connection, and the connection uses the checked result: there is no
/// gap between check and use.
#[tokio::test]
async fn a_name_that_resolves_to_a_private_address_is_refused() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    for rules in [usual_ports(), OutboundRules::default()] {
        let client = OutboundClient::new(rules, Duration::from_secs(5)).unwrap();
        let url = Url::parse(&format!("http://localhost:{port}/")).unwrap();
        // The name passes the check without resolution.
        let request = client.request(reqwest::Method::GET, &url).unwrap();
        let error = request.send().await.unwrap_err();
        assert_eq!(
            AddressRefusal::cause_of(&error),
            Some(AddressRefusal::NotPublic)
        );
    }
    let accepted = listener.accept().map(|_| ());
    assert_eq!(
        accepted.unwrap_err().kind(),
        std::io::ErrorKind::WouldBlock,
        "no connection was opened"
    );
}
