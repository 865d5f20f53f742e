//! Which hosts receive the credential, and where connections go.

use providers::driver::{DownloadError, Driver, ProviderRules};
use providers::{Call, ErrorClass, OutputSource, ProviderSettings};
use serde_json::json;

use super::plain::{PLAIN, handle, provider, secret};
use super::server::{Server, answer, json};

fn loopback() -> ProviderRules {
    ProviderRules {
        allow_networks: vec!["127.0.0.0/8".parse().unwrap()],
        ..ProviderRules::default()
    }
}

async fn other_server() -> Server {
    Server::start(|_| json(200, &json!({"status": "running"}))).await
}

/// A provider whose answers point to another URL.
async fn server_pointing_to(address: String) -> Server {
    Server::start(move |_| json(200, &json!({"see": address}))).await
}

#[tokio::test]
async fn a_private_address_that_an_answer_names_is_not_connected_to() {
    let other = other_server().await;
    for address in [
        other.url(),
        format!("http://localhost:{}/", other.port()),
        format!("http://[::ffff:127.0.0.1]:{}/", other.port()),
        format!("//127.0.0.1:{}/", other.port()),
        "http://169.254.169.254/latest/meta-data".into(),
        "http://user:pw@8.8.8.8/".into(),
        "file:///etc/passwd".into(),
        "gopher://8.8.8.8/".into(),
    ] {
        let server = server_pointing_to(address.clone()).await;
        let provider = provider(&server.url(), &json!({}), ProviderRules::default());
        let driver = Driver::new();
        let error = driver
            .poll(&provider, &secret(), &handle("1"))
            .await
            .unwrap_err();
        assert_eq!(
            error.code.as_deref(),
            Some("blocked_address"),
            "{address}: {error}"
        );
        assert_eq!(error.class, ErrorClass::Unavailable);
        let mut file = tokio::fs::File::from_std(tempfile::tempfile().unwrap());
        let source = OutputSource::Address(address.clone());
        let downloaded = driver
            .download(&provider, &secret(), &source, &mut file)
            .await;
        assert!(
            matches!(
                downloaded,
                Err(DownloadError::Failed(_) | DownloadError::Refused(_))
            ),
            "{address}"
        );
    }
    assert!(other.received().is_empty());
}

#[test]
fn a_link_for_callers_is_absolute_and_public() {
    let links = |base_url: &str, rules: ProviderRules| {
        let provider = provider(base_url, &json!({"hosts": ["10.0.0.6"]}), rules);
        move |address: &str| provider.link(address).map(String::from)
    };
    let public = links("https://api.example.com/v1", ProviderRules::default());
    for address in [
        "",
        " ",
        "\n",
        // Relative texts, which would be resolved against `base_url`.
        "/a.mp4",
        "a.mp4",
        "?id=1",
        "//api.example.com/a.mp4",
        "//cdn.example.com/a.mp4",
        "/\\cdn.example.com/a.mp4",
        // Private, even if they are the provider's own.
        "http://10.0.0.5:8000/a.mp4",
        "http://10.0.0.6/a.mp4",
        "http://[fd00::1]/a.mp4",
        "http://localhost/a.mp4",
        "http://films.localhost/a.mp4",
        // Names of local networks, which need not resolve here.
        "http://intranet/a.mp4",
        "https://files.internal/a.mp4",
        "https://user:pw@api.example.com/a.mp4",
    ] {
        let private = links("http://10.0.0.5:8000", ProviderRules::default());
        for link in [&public, &private] as [&dyn Fn(&str) -> Result<String, String>; 2] {
            assert!(link(address).is_err(), "{address:?}");
        }
    }
    assert!(public("https:a.mp4").is_err());
    assert_eq!(
        public(" https://cdn.example.com/a.mp4 ").unwrap(),
        "https://cdn.example.com/a.mp4"
    );
    // The operator's callers are in this network.
    let rules = ProviderRules {
        allow_networks: vec!["10.0.0.0/8".parse().unwrap()],
        ..ProviderRules::default()
    };
    let lan = links("http://10.0.0.5:8000", rules);
    assert!(lan("http://10.0.0.5:8000/a.mp4").is_ok());
    assert!(lan("http://films.lan:8000/a.mp4").is_ok());
    assert!(lan("/a.mp4").is_err());
}

#[tokio::test]
async fn another_host_is_followed_without_the_credential() {
    let other = other_server().await;
    let server = server_pointing_to(format!("{}/x", other.url())).await;
    let provider = provider(&server.url(), &json!({}), loopback());
    let driver = Driver::new();
    driver
        .poll(&provider, &secret(), &handle("1"))
        .await
        .unwrap();
    assert!(server.received()[0].header("authorization").is_some());
    assert_eq!(other.received()[0].header("authorization"), None);
}

#[tokio::test]
async fn a_listed_host_is_trusted_on_its_port() {
    for (with_port, is_trusted) in [(true, true), (false, false)] {
        for by_operator in [true, false] {
            let other = other_server().await;
            let server = server_pointing_to(format!("{}/x", other.url())).await;
            let host = if with_port {
                format!("127.0.0.1:{}", other.port())
            } else {
                "127.0.0.1".to_owned()
            };
            let (hosts, options) = if by_operator {
                (vec![host], json!({}))
            } else {
                (Vec::new(), json!({"hosts": [host]}))
            };
            let rules = ProviderRules {
                hosts,
                ..ProviderRules::default()
            };
            let provider = provider(&server.url(), &options, rules);
            let result = Driver::new().poll(&provider, &secret(), &handle("1")).await;
            assert_eq!(result.is_ok(), is_trusted);
            let has_credential = other
                .received()
                .iter()
                .all(|request| request.header("authorization").is_some());
            assert!(has_credential);
        }
    }
}

#[tokio::test]
async fn a_redirect_of_a_call_is_not_followed() {
    let other = other_server().await;
    let location = other.url();
    let server = Server::start(move |_| answer(307, &[("location", &location)], b"")).await;
    let provider = provider(&server.url(), &json!({}), loopback());
    Driver::new()
        .poll(&provider, &secret(), &handle("1"))
        .await
        .unwrap_err();
    assert!(other.received().is_empty());
}

#[tokio::test]
async fn a_redirect_of_a_download_leaves_credential_and_headers_behind() {
    let other = Server::start(|_| answer(200, &[], b"video")).await;
    let location = format!("{}/there", other.url());
    let server = Server::start(move |request| {
        let location = if request.line == "GET /here" {
            "/then"
        } else {
            &location
        };
        answer(302, &[("location", location)], b"")
    })
    .await;
    let call = Call::get("content", "/here").with_header("x-own", "1");
    let source = OutputSource::Call(Box::new(call));
    let driver = Driver::new();
    let mut file = tokio::fs::File::from_std(tempfile::tempfile().unwrap());
    let lenient_provider = provider(&server.url(), &json!({}), loopback());
    driver
        .download(&lenient_provider, &secret(), &source, &mut file)
        .await
        .unwrap();
    let (own_requests, other_requests) = (server.received(), other.received());
    assert_eq!(own_requests.len(), 2);
    assert!(
        own_requests
            .iter()
            .all(|request| request.header("authorization").is_some()
                && request.header("x-own").is_some())
    );
    assert_eq!(
        (
            other_requests[0].header("authorization"),
            other_requests[0].header("x-own")
        ),
        (None, None)
    );
    // Each hop is checked.
    let strict_provider = provider(&server.url(), &json!({}), ProviderRules::default());
    let error = driver
        .download(&strict_provider, &secret(), &source, &mut file)
        .await
        .unwrap_err();
    assert!(matches!(error, DownloadError::Failed(_)), "{error:?}");
    assert_eq!(other.received().len(), 1);
}

#[tokio::test]
async fn redirects_are_limited() {
    let server = Server::start(|_| answer(302, &[("location", "/again")], b"")).await;
    let provider = provider(&server.url(), &json!({}), ProviderRules::default());
    let mut file = tokio::fs::File::from_std(tempfile::tempfile().unwrap());
    let source = OutputSource::Address(format!("{}/a", server.url()));
    let driver = Driver::new();
    driver
        .download(&provider, &secret(), &source, &mut file)
        .await
        .unwrap_err();
    assert_eq!(server.received().len(), 4 * 3, "four hops, three tries");
}

#[test]
fn a_base_url_is_an_http_url_without_user_and_query() {
    for (url, is_valid) in [
        ("https://api.example.com/v1", true),
        ("http://10.0.0.5:8000", true),
        ("ftp://example.com", false),
        ("https://user@example.com", false),
        ("https://example.com/?a=b", false),
        ("data:text/plain,x", false),
    ] {
        let settings = ProviderSettings {
            base_url: Some(url.parse().unwrap()),
            ..ProviderSettings::new("plain", serde_json::Map::new())
        };
        let provider =
            providers::driver::Provider::new(&PLAIN, &settings, ProviderRules::default());
        assert_eq!(provider.is_ok(), is_valid, "{url}");
    }
}
