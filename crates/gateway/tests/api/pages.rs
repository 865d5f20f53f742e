//! The pages for people.

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::HeaderMap;

use crate::support::TestGateway;

#[tokio::test]
async fn pages_load_only_their_own_files() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let anyone = gateway.without_key();
    for path in ["/", "/console", "/console/tasks/some-id", "/pricing"] {
        let page = anyone.get(path).await;
        assert_eq!(
            (page.status, page.header("content-type")),
            (200, Some("text/html; charset=utf-8")),
            "{path}"
        );
        let policy = page.header("content-security-policy").unwrap();
        assert!(
            policy.contains("default-src 'self'") && !policy.contains("unsafe"),
            "{policy}"
        );
        // Only films may come from elsewhere, by https.
        assert!(
            policy.contains("media-src 'self' blob: https:;"),
            "{policy}"
        );
        assert_eq!(policy.matches("https:").count(), 1, "{policy}");
        let text = String::from_utf8(page.bytes.to_vec()).unwrap();
        assert!(text.starts_with("<!DOCTYPE html>"), "{path}");
        // This server has every file that the page names.
        let mut files = 0;
        for name in ["src=\"", "href=\""] {
            for rest in text.split(name).skip(1) {
                let address = rest.split('"').next().unwrap();
                if !address.starts_with("/assets/") {
                    continue;
                }
                files += 1;
                let file = anyone.get(address).await;
                assert_eq!(file.status, 200, "{path} names {address}");
                assert!(file.header("cache-control").unwrap().contains("immutable"));
                // A file of another version is not cached.
                let (plain, version) = address.split_once("?v=").unwrap();
                for other in [plain.to_owned(), format!("{plain}?v=0{version}")] {
                    let file = anyone.get(&other).await;
                    assert_eq!(file.header("cache-control"), Some("no-cache"), "{other}");
                }
            }
        }
        assert!(files > 0, "{path} has no style");
    }
    for path in ["/console/nothing", "/assets/console/nothing.js"] {
        anyone.get(path).await.refused(404, "route_not_found");
    }
    anyone
        .get("/assets/nothing.css")
        .await
        .refused(404, "route_not_found");
    anyone
        .get("/assets/..%2fCargo.toml")
        .await
        .refused(404, "route_not_found");
    gateway.stop().await;
}

#[tokio::test]
async fn the_documentation_is_served() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let anyone = gateway.without_key();
    let text = async |path: &str| {
        let page = anyone.get(path).await;
        assert_eq!(page.status, 200, "{path}");
        String::from_utf8(page.bytes.to_vec()).unwrap()
    };
    let index = text("/docs").await;
    for address in addresses(&index, "/docs") {
        assert_eq!(anyone.get(address).await.status, 200, "{address}");
    }
    let reference = text("/docs/api").await;
    let document = anyone.get("/openapi.json").await.ok();
    for path in document["paths"].as_object().unwrap().keys() {
        assert!(
            reference.contains(&format!("<code>{path}</code>")),
            "{path}"
        );
    }
    let results = text("/docs?q=Idempotency-Key").await;
    assert!(results.contains("<ol class=\"hits\">"), "{results}");
    let hostile = text("/docs?q=%3Cscript%3Ealert(1)%3C%2Fscript%3E").await;
    assert!(!hostile.contains("<script>alert"));
    for missing in ["/docs/nothing", "/docs/..%2fREADME", "/docs/providers"] {
        anyone.get(missing).await.refused(404, "route_not_found");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn programs_read_the_documentation_as_markdown() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let anyone = gateway.without_key();
    let list = anyone.get("/llms.txt").await;
    assert_eq!(
        list.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    let list = String::from_utf8(list.bytes.to_vec()).unwrap();
    let mut pages = 0;
    for link in list.split("](").skip(1) {
        let address = link.split(')').next().unwrap();
        let (_, path) = address.split_once("://").unwrap();
        let path = &path[path.find('/').unwrap()..];
        let page = anyone.get(path).await;
        assert_eq!(page.status, 200, "{path}");
        if path.ends_with(".md") {
            pages += 1;
            let content_type = page.header("content-type");
            assert_eq!(content_type, Some("text/markdown; charset=utf-8"), "{path}");
            assert!(page.bytes.starts_with(b"# "), "{path}");
        }
    }
    assert!(pages > 20, "{list}");
    let with = async |accept: &str| {
        let request = anyone.request(Method::GET, "/docs/errors");
        let page = anyone.send(request.header("accept", accept)).await;
        page.header("content-type").unwrap().to_owned()
    };
    assert_eq!(
        with("text/markdown, text/html;q=0.9").await,
        "text/markdown; charset=utf-8"
    );
    assert_eq!(
        with("text/html,text/markdown").await,
        "text/html; charset=utf-8"
    );
    anyone
        .get("/docs/nothing.md")
        .await
        .refused(404, "route_not_found");
    gateway.stop().await;
}

/// A response as it came: its body may be compressed, or a page.
async fn fetched(
    gateway: &TestGateway,
    path: &str,
    (name, value): (&str, &str),
) -> (u16, HeaderMap, Bytes) {
    let address = format!("{}{path}", gateway.base);
    let request = gateway.http.get(address).header(name, value);
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    (status, headers, response.bytes().await.unwrap())
}

#[tokio::test]
async fn documents_are_compressed_for_clients_that_accept_it() {
    let gateway = TestGateway::builder().without_workers().start().await;
    for path in [
        "/docs/api",
        "/openapi.json",
        "/docs/errors",
        "/assets/style.css",
    ] {
        let mut lengths = Vec::new();
        for (accept, encoding) in [("identity", None), ("gzip, br", Some("gzip"))] {
            let (status, headers, body) =
                fetched(&gateway, path, ("accept-encoding", accept)).await;
            assert_eq!(status, 200, "{path}");
            let found = headers.get("content-encoding");
            assert_eq!(found.map(|value| value.to_str().unwrap()), encoding);
            assert_eq!(body.starts_with(&[0x1f, 0x8b]), encoding.is_some());
            let mut vary = headers.get_all("vary").iter();
            assert!(vary.any(|value| value == "accept-encoding"), "{path}");
            lengths.push(body.len());
        }
        assert!(lengths[1] * 2 < lengths[0], "{path}: {lengths:?}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn browsers_get_a_page_at_a_wrong_address() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let anyone = gateway.without_key();
    for (path, part) in [
        ("/nowhere", "There is no page at this address"),
        ("/v1/nowhere", "href=\"/console\""),
        ("/docs/nowhere", "href=\"/docs\""),
        // The console's scripts say it.
        ("/console/nowhere", "console/app.js"),
    ] {
        let accept = "text/html,application/xhtml+xml,*/*;q=0.8";
        let (status, headers, body) = fetched(&gateway, path, ("accept", accept)).await;
        assert_eq!(status, 404, "{path}");
        assert_eq!(headers["content-type"], "text/html; charset=utf-8");
        let text = String::from_utf8(body.to_vec()).unwrap();
        assert!(text.contains(part), "{path}: {text}");
        anyone.get(path).await.refused(404, "route_not_found");
    }
    gateway.stop().await;
}

/// The links of a page below a path.
fn addresses<'a>(page: &'a str, below: &str) -> Vec<&'a str> {
    let links = page.split("href=\"").skip(1);
    let links = links.map(|rest| rest.split(['"', '#']).next().unwrap());
    links.filter(|link| link.starts_with(below)).collect()
}

/// Nobody needs a key for a search, so each address gets only so many.
#[tokio::test]
async fn searches_are_limited_by_address() {
    let gateway = TestGateway::builder()
        .without_workers()
        .toml("trusted_proxies = [\"127.0.0.0/8\"]")
        .start()
        .await;
    let anyone = gateway.without_key();
    let search = async |address: &str, path: &str| {
        let request = anyone.request(reqwest::Method::GET, path);
        let request = request.header("x-forwarded-for", address);
        anyone.send(request).await
    };
    // Concurrently: one after the other, the limit would recover meanwhile.
    let searches = (0..80).map(|_| search("192.0.2.1", "/docs?q=idempotency"));
    let answers = futures_util::future::join_all(searches).await;
    let refused: Vec<_> = answers
        .iter()
        .filter(|answer| answer.status != 200)
        .collect();
    assert!((1..=20).contains(&refused.len()), "{}", refused.len());
    refused[0].refused(429, "rate_limit_exceeded");
    assert!(refused[0].header("retry-after").is_some());
    // Others, and pages that search nothing, are not concerned.
    for (address, path) in [
        ("192.0.2.2", "/docs?q=idempotency"),
        ("192.0.2.1", "/docs"),
        ("192.0.2.1", "/docs?q="),
        ("192.0.2.1", "/docs/errors"),
    ] {
        assert_eq!(search(address, path).await.status, 200, "{path}");
    }
    gateway.stop().await;
}
