//! Sessions: a key exchanged for a cookie.

use reqwest::Method;
use serde_json::{Value, json};

use super::{audit_entries, operator, start};
use crate::support::{Answer, Client, TestGateway, eventually, schema, videos_order};
use mediagate_core::domain::keys::NewKey;
use mediagate_model::account::Scope;

/// A signed-in browser.
struct Page {
    client: Client,
    cookie: String,
    csrf: String,
}

impl Page {
    async fn sign_in(client: &Client) -> Self {
        let answer = client
            .send(client.request(Method::POST, "/v1/session"))
            .await;
        let set_cookie = answer.header("set-cookie").unwrap().to_owned();
        for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"] {
            assert!(set_cookie.contains(part), "{set_cookie}");
        }
        let session = answer.ok();
        Self {
            client: client.without_key(),
            cookie: set_cookie.split(';').next().unwrap().to_owned(),
            csrf: session["csrf_token"].as_str().unwrap().to_owned(),
        }
    }

    async fn send(&self, method: Method, path: &str, body: &Value, csrf: Option<&str>) -> Answer {
        let mut request = self
            .client
            .request(method, path)
            .header("cookie", &self.cookie);
        if let Some(csrf) = csrf {
            request = request.header("x-csrf-token", csrf);
        }
        if !body.is_null() {
            request = request.json(body);
        }
        self.client.send(request).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &Value::Null, None).await
    }

    async fn send_with_csrf(&self, method: Method, path: &str, body: &Value) -> Answer {
        self.send(method, path, body, Some(&self.csrf)).await
    }
}

#[tokio::test]
async fn the_cookie_works_like_the_key_until_it_ends() {
    for postgres in [false, true] {
        let (_gateway, operator) = start(postgres).await;
        let page = Page::sign_in(&operator).await;
        let session = page.get("/v1/session").await.ok();
        assert_eq!(
            (&session["csrf_token"], &session["scopes"]),
            (&json!(page.csrf), &json!(["admin"]))
        );
        page.get("/v1/admin/keys").await.ok();
        page.send_with_csrf(Method::POST, "/v1/videos", &videos_order())
            .await
            .ok();
        let created = page
            .send_with_csrf(Method::POST, "/v1/admin/keys", &json!({"name": "k"}))
            .await
            .ok();
        assert!(created["key"].is_string());
        for csrf in [None, Some("wrong")] {
            let refused = page
                .send(Method::POST, "/v1/videos", &videos_order(), csrf)
                .await;
            refused.refused(403, "csrf_token_required");
            let refused = page
                .send(Method::DELETE, "/v1/session", &Value::Null, csrf)
                .await;
            refused.refused(403, "csrf_token_required");
        }
        // A session cannot start another one.
        let second_session = page
            .send_with_csrf(Method::POST, "/v1/session", &Value::Null)
            .await;
        second_session.refused(401, "missing_api_key");
        let ended = page
            .send_with_csrf(Method::DELETE, "/v1/session", &Value::Null)
            .await;
        assert!(ended.header("set-cookie").unwrap().contains("Max-Age=0"));
        ended.ok();
        eventually("the session has ended", async || {
            let answer = page.get("/v1/tasks").await;
            (answer.json["error"]["code"] == "expired_api_key").then_some(())
        })
        .await;
        operator
            .get("/v1/session")
            .await
            .refused(401, "missing_api_key");
    }
}

#[tokio::test]
async fn a_session_has_the_rights_of_its_key_and_ends_with_it() {
    let gateway = TestGateway::builder()
        .without_workers()
        .manual_clock()
        .start()
        .await;
    let limited = NewKey {
        scopes: vec![Scope::TasksRead],
        ..NewKey::default()
    };
    let limited = gateway.caller("owls", limited).await;
    let page = Page::sign_in(&limited).await;
    page.get("/v1/tasks").await.ok();
    page.get("/v1/admin/keys")
        .await
        .refused(403, "insufficient_scope");
    let operator = operator(&gateway).await;
    let id = page.get("/v1/session").await.ok()["key_id"].clone();
    let path = format!("/v1/admin/keys/{}", id.as_str().unwrap());
    let rotated = operator
        .post(&format!("{path}/rotate"), &json!({}))
        .await
        .ok();
    page.get("/v1/tasks").await.refused(401, "expired_api_key");
    let limited = gateway.with_key(rotated["key"].as_str().unwrap());
    let page = Page::sign_in(&limited).await;
    operator.delete(&path).await.ok();
    page.get("/v1/tasks").await.refused(401, "revoked_api_key");
    let page = Page::sign_in(&operator).await;
    gateway
        .app
        .clock
        .advance(std::time::Duration::from_hours(12));
    page.get("/v1/tasks").await.refused(401, "expired_api_key");
    let with_wrong_cookie = Page {
        cookie: "other=1; mediagate_session=x".into(),
        ..page
    };
    with_wrong_cookie
        .get("/v1/tasks")
        .await
        .refused(401, "expired_api_key");
}

/// Every endpoint by which an operator changes something, with its parameters' names as values.
fn admin_writes() -> Vec<(Method, String)> {
    let paths = schema::document()["paths"].as_object().unwrap();
    let admin_paths = paths
        .iter()
        .filter(|(path, _)| path.starts_with("/v1/admin/"));
    let operations = admin_paths.flat_map(|(path, operations)| {
        let methods = operations.as_object().unwrap().keys();
        methods.map(move |method| {
            let method: Method = method.to_uppercase().parse().unwrap();
            (method, path.clone())
        })
    });
    let writes: Vec<(Method, String)> = operations
        .filter(|(method, _)| *method != Method::GET)
        .collect();
    assert!(writes.len() >= 11, "{writes:?}");
    writes
}

#[tokio::test]
async fn a_former_secret_cannot_start_or_change_anything_lasting() {
    for postgres in [false, true] {
        let (gateway, operator) = start(postgres).await;
        let body = json!({"name": "rotated", "scopes": ["admin"]});
        let created = operator.post("/v1/admin/keys", &body).await.ok();
        let path = format!("/v1/admin/keys/{}", created["id"].as_str().unwrap());
        let rotate = format!("{path}/rotate");
        let former = gateway.with_key(created["key"].as_str().unwrap());
        let page = Page::sign_in(&former).await;
        page.get("/v1/admin/keys").await.ok();
        let rotated = operator.post(&rotate, &json!({"grace": "1h"})).await.ok();
        assert_eq!(rotated["sessions_ended"], 1);
        eventually("the session has ended with its secret", async || {
            let answer = page.get("/v1/admin/keys").await;
            (answer.json["error"]["code"] == "expired_api_key").then_some(())
        })
        .await;
        eventually("the secret is a former one", async || {
            let answer = former.post("/v1/session", &Value::Null).await;
            (answer.status != 200).then_some(())
        })
        .await;
        let webhook = json!({"url": "https://example.com/hook"});
        let minted = json!({"name": "minted"});
        let admin_writes = admin_writes();
        let lasting = [
            (Method::POST, "/v1/session", &Value::Null),
            (Method::POST, "/v1/webhooks", &webhook),
            (Method::POST, "/v1/webhooks/secret/rotate", &Value::Null),
        ];
        let of_operators = admin_writes
            .iter()
            .map(|(method, path)| (method.clone(), path.as_str(), &minted));
        for (method, path, body) in lasting.into_iter().chain(of_operators) {
            let request = former.request(method.clone(), path);
            let request = if body.is_null() {
                request
            } else {
                request.json(body)
            };
            let refused = former.send(request).await;
            refused.refused(403, "former_api_key");
            assert_eq!(refused.header("set-cookie"), None, "{method} {path}");
        }
        // Until the grace period ends it works for ordinary requests.
        former.get("/v1/tasks").await.ok();
        former.get("/v1/admin/keys").await.ok();
        former.post("/v1/videos", &videos_order()).await.ok();
        let owner = gateway.with_key(rotated["key"].as_str().unwrap());
        Page::sign_in(&owner).await;
        owner.post(&rotate, &json!({})).await.ok();
        let names = operator.get("/v1/admin/keys?limit=100").await.whole_text();
        assert!(!names.contains("minted"), "{names}");
        let refused = audit_entries(&operator, "operator.refused").await;
        let calls: Vec<_> = refused.iter().rev().map(|entry| &entry["target"]).collect();
        let expected: Vec<_> = admin_writes
            .iter()
            .map(|(method, path)| format!("{method} {path}"))
            .collect();
        assert_eq!(json!(calls), json!(expected));
        assert_eq!(refused[0]["after"]["code"], "former_api_key");
        assert_eq!(refused[0]["actor"]["id"], created["id"]);
    }
}

/// What a former secret may not do outside `/v1/admin`. Any other operation of the API document has
/// to work with it: a new one belongs here if its effect, or its answer, outlives the grace period.
const LASTING: [&str; 7] = [
    "DELETE /v1/webhooks/{id}",
    "GET /v1/webhooks/secret",
    "PATCH /v1/webhooks/{id}",
    "POST /v1/session",
    "POST /v1/webhooks",
    "POST /v1/webhooks/secret/rotate",
    "POST /v1/webhooks/{id}/rotate",
];

#[tokio::test]
async fn a_former_secret_reaches_nothing_that_outlives_it() {
    let (gateway, operator) = start(false).await;
    let new = json!({"name": "rotated", "scopes": ["admin"], "rpm": 10_000});
    let created = operator.post("/v1/admin/keys", &new).await.ok();
    let former = gateway.with_key(created["key"].as_str().unwrap());
    let webhook = json!({"url": "https://example.com/hook"});
    let registered = former.post("/v1/webhooks", &webhook).await.ok();
    let secret = former.get("/v1/webhooks/secret").await.ok();
    let rotate = format!("/v1/admin/keys/{}/rotate", created["id"].as_str().unwrap());
    let rotated = operator.post(&rotate, &json!({"grace": "1h"})).await.ok();
    let document = operator.get("/openapi.json").await.ok();
    let mut refused = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            let Ok(method) = method.to_uppercase().parse::<Method>() else {
                continue;
            };
            // A stream does not end by itself.
            if path == "/v1/admin/events" {
                continue;
            }
            let id = registered["id"].as_str().unwrap();
            let address = path.replace("{id}", id).replace(['{', '}'], "");
            let mut request = former.request(method.clone(), &address);
            if method != Method::GET && method != Method::DELETE {
                request = request.json(&webhook);
            }
            let response = request.send().await.unwrap();
            let status = response.status().as_u16();
            let body = response.bytes().await.unwrap();
            let body: Value = serde_json::from_slice(&body).unwrap_or_default();
            let operation = format!("{method} {path}");
            let is_refused = body["error"]["code"] == "former_api_key";
            assert!(!is_refused || status == 403, "{operation}: {body}");
            let is_admin_write = path.starts_with("/v1/admin/") && method != Method::GET;
            if is_admin_write {
                assert!(is_refused, "{operation}: {status} {body}");
            } else if is_refused {
                refused.push(operation);
            }
        }
    }
    refused.sort();
    assert_eq!(refused, LASTING);
    let owner = gateway.with_key(rotated["key"].as_str().unwrap());
    let kept = owner.get("/v1/webhooks/secret").await.ok();
    assert_eq!(kept["secret"], secret["secret"]);
    let kept = owner.get("/v1/webhooks").await.ok();
    assert_eq!(kept["data"].as_array().unwrap().len(), 1, "{kept}");
}

#[tokio::test]
async fn a_session_too_many_ends_the_oldest_and_is_logged() {
    for postgres in [false, true] {
        let (_gateway, operator) = start(postgres).await;
        let first = Page::sign_in(&operator).await;
        for _ in 0..99 {
            Page::sign_in(&operator).await;
        }
        first.get("/v1/tasks").await.ok();
        let newest = Page::sign_in(&operator).await;
        newest.get("/v1/tasks").await.ok();
        eventually("the oldest has ended", async || {
            let answer = first.get("/v1/tasks").await;
            (answer.json["error"]["code"] == "expired_api_key").then_some(())
        })
        .await;
        newest
            .send_with_csrf(Method::DELETE, "/v1/session", &Value::Null)
            .await
            .ok();
        let end_entries = audit_entries(&operator, "session.end").await;
        let reasons: Vec<_> = end_entries
            .iter()
            .map(|entry| &entry["after"]["ended"])
            .collect();
        assert_eq!(reasons, ["signed out", "too many sessions"]);
        let begin_entries = audit_entries(&operator, "session.begin").await;
        let session_ids = |entries: &[Value]| -> Vec<Value> {
            let entries = entries.iter();
            entries
                .map(|entry| entry["after"]["session"].clone())
                .collect()
        };
        let (begin_entries, end_entries) = (session_ids(&begin_entries), session_ids(&end_entries));
        assert!(
            end_entries.contains(&begin_entries[0]),
            "the last one signed out"
        );
        for page in [&first, &newest] {
            let cookie = page.cookie.split('=').nth(1).unwrap();
            let log = operator.get("/v1/admin/audit?limit=100").await.whole_text();
            assert!(!log.contains(cookie), "{log}");
        }
    }
}

#[tokio::test]
async fn with_tls_the_cookie_is_bound_to_the_host() {
    let gateway = TestGateway::builder()
        .without_workers()
        .set(|settings| settings.public_url = Some("https://media.example".parse().unwrap()))
        .start()
        .await;
    let page = Page::sign_in(&gateway).await;
    assert!(
        page.cookie.starts_with("__Host-mediagate_session="),
        "{}",
        page.cookie
    );
    page.get("/v1/tasks").await.ok();
    // A cookie that another host of the domain could have set is not accepted.
    let without_prefix = Page {
        client: page.client.clone(),
        cookie: page.cookie.replace("__Host-", ""),
        csrf: page.csrf.clone(),
    };
    without_prefix
        .get("/v1/tasks")
        .await
        .refused(401, "missing_api_key");
    let ended = page
        .send_with_csrf(Method::DELETE, "/v1/session", &Value::Null)
        .await;
    let cleared = ended.header("set-cookie").unwrap();
    assert!(cleared.starts_with("__Host-mediagate_session=;") && cleared.contains("; Secure"));
    // Browsers reject the prefix over plain HTTP, so the short name is used there.
    let without_tls = TestGateway::builder().without_workers().start().await;
    let page = Page::sign_in(&without_tls).await;
    assert!(page.cookie.starts_with("mediagate_session="));
}
