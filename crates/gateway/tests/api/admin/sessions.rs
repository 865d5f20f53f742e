//! Sessions: a key exchanged for a cookie.

use reqwest::Method;
use serde_json::{Value, json};

use super::{audited, operator, start};
use crate::support::{Answer, Client, TestGateway, eventually, videos_order};
use mediagate_core::domain::keys::NewKey;
use mediagate_model::account::Scope;

/// Somebody who has signed in.
struct Page {
    client: Client,
    cookie: String,
    csrf: String,
}

impl Page {
    async fn sign_in(client: &Client) -> Self {
        let begun = client
            .send(client.request(Method::POST, "/v1/session"))
            .await;
        let set = begun.header("set-cookie").unwrap().to_owned();
        for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"] {
            assert!(set.contains(part), "{set}");
        }
        let session = begun.ok();
        Self {
            client: client.without_key(),
            cookie: set.split(';').next().unwrap().to_owned(),
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

    async fn write(&self, method: Method, path: &str, body: &Value) -> Answer {
        self.send(method, path, body, Some(&self.csrf)).await
    }
}

#[tokio::test]
async fn the_cookie_works_where_the_key_does_until_it_ends() {
    for postgres in [false, true] {
        let (_gateway, operator) = start(postgres).await;
        let page = Page::sign_in(&operator).await;
        let session = page.get("/v1/session").await.ok();
        assert_eq!(
            (&session["csrf_token"], &session["scopes"]),
            (&json!(page.csrf), &json!(["admin"]))
        );
        page.get("/v1/admin/keys").await.ok();
        page.write(Method::POST, "/v1/videos", &videos_order())
            .await
            .ok();
        let made = page
            .write(Method::POST, "/v1/admin/keys", &json!({"name": "k"}))
            .await
            .ok();
        assert!(made["key"].is_string());
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
        // A session does not beget another.
        let more = page.write(Method::POST, "/v1/session", &Value::Null).await;
        more.refused(401, "missing_api_key");
        let ended = page
            .write(Method::DELETE, "/v1/session", &Value::Null)
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
    let weak = NewKey {
        scopes: vec![Scope::TasksRead],
        ..NewKey::default()
    };
    let weak = gateway.caller("owls", weak).await;
    let page = Page::sign_in(&weak).await;
    page.get("/v1/tasks").await.ok();
    page.get("/v1/admin/keys")
        .await
        .refused(403, "insufficient_scope");
    let staff = operator(&gateway).await;
    let id = page.get("/v1/session").await.ok()["key_id"].clone();
    let path = format!("/v1/admin/keys/{}", id.as_str().unwrap());
    let rotated = staff.post(&format!("{path}/rotate"), &json!({})).await.ok();
    page.get("/v1/tasks").await.refused(401, "expired_api_key");
    let weak = gateway.with_key(rotated["key"].as_str().unwrap());
    let page = Page::sign_in(&weak).await;
    staff.delete(&path).await.ok();
    page.get("/v1/tasks").await.refused(401, "revoked_api_key");
    let page = Page::sign_in(&staff).await;
    gateway
        .app
        .clock
        .advance(std::time::Duration::from_hours(12));
    page.get("/v1/tasks").await.refused(401, "expired_api_key");
    let wrong = Page {
        cookie: "other=1; mediagate_session=x".into(),
        ..page
    };
    wrong.get("/v1/tasks").await.refused(401, "expired_api_key");
}

#[tokio::test]
async fn a_former_secret_begins_and_changes_nothing_that_outlives_its_grace() {
    for postgres in [false, true] {
        let (gateway, operator) = start(postgres).await;
        let body = json!({"name": "rotated", "scopes": ["admin"]});
        let made = operator.post("/v1/admin/keys", &body).await.ok();
        let path = format!("/v1/admin/keys/{}", made["id"].as_str().unwrap());
        let rotate = format!("{path}/rotate");
        let former = gateway.with_key(made["key"].as_str().unwrap());
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
        let other = operator
            .post("/v1/admin/keys", &json!({"name": "other"}))
            .await
            .ok();
        let other = format!("/v1/admin/keys/{}", other["id"].as_str().unwrap());
        let raised = json!({"scopes": ["admin"]});
        let hook = json!({"url": "https://example.com/hook"});
        for (method, path, body) in [
            (Method::POST, "/v1/session", &Value::Null),
            (Method::POST, "/v1/admin/keys", &json!({"name": "minted"})),
            (Method::POST, &rotate, &json!({})),
            (Method::PATCH, &path, &raised),
            (Method::PATCH, &other, &raised),
            (Method::DELETE, &path, &Value::Null),
            (Method::POST, "/v1/webhooks", &hook),
            (Method::POST, "/v1/webhooks/secret/rotate", &Value::Null),
        ] {
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
        // Until the grace ends it does its ordinary work.
        former.get("/v1/tasks").await.ok();
        former.get("/v1/admin/keys").await.ok();
        former.post("/v1/videos", &videos_order()).await.ok();
        let owner = gateway.with_key(rotated["key"].as_str().unwrap());
        Page::sign_in(&owner).await;
        owner.post(&rotate, &json!({})).await.ok();
        let names = operator.get("/v1/admin/keys?limit=100").await.whole_text();
        assert!(!names.contains("minted"), "{names}");
        let refused = audited(&operator, "operator.refused").await;
        let calls: Vec<_> = refused.iter().rev().map(|entry| &entry["target"]).collect();
        assert_eq!(
            calls,
            [
                "POST /v1/admin/keys",
                "POST /v1/admin/keys/{id}/rotate",
                "PATCH /v1/admin/keys/{id}",
                "DELETE /v1/admin/keys/{id}"
            ]
        );
        assert_eq!(refused[0]["after"]["code"], "former_api_key");
        assert_eq!(refused[0]["actor"]["id"], made["id"]);
    }
}

#[tokio::test]
async fn the_oldest_session_ends_for_one_more_and_all_of_it_is_in_the_audit_log() {
    for postgres in [false, true] {
        let (_gateway, operator) = start(postgres).await;
        let first = Page::sign_in(&operator).await;
        for _ in 0..99 {
            Page::sign_in(&operator).await;
        }
        first.get("/v1/tasks").await.ok();
        let last = Page::sign_in(&operator).await;
        last.get("/v1/tasks").await.ok();
        eventually("the oldest has ended", async || {
            let answer = first.get("/v1/tasks").await;
            (answer.json["error"]["code"] == "expired_api_key").then_some(())
        })
        .await;
        last.write(Method::DELETE, "/v1/session", &Value::Null)
            .await
            .ok();
        let ended = audited(&operator, "session.end").await;
        let reasons: Vec<_> = ended.iter().map(|entry| &entry["after"]["ended"]).collect();
        assert_eq!(reasons, ["signed out", "too many sessions"]);
        let begun = audited(&operator, "session.begin").await;
        let names = |entries: &[Value]| -> Vec<Value> {
            let entries = entries.iter();
            entries.map(|it| it["after"]["session"].clone()).collect()
        };
        let (begun, ended) = (names(&begun), names(&ended));
        assert!(ended.contains(&begun[0]), "the last one signed out");
        for page in [&first, &last] {
            let cookie = page.cookie.split('=').nth(1).unwrap();
            let log = operator.get("/v1/admin/audit?limit=100").await.whole_text();
            assert!(!log.contains(cookie), "{log}");
        }
    }
}

#[tokio::test]
async fn by_tls_the_cookie_is_this_hosts_alone() {
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
    // One that another host of the domain could have set is none.
    let tossed = Page {
        client: page.client.clone(),
        cookie: page.cookie.replace("__Host-", ""),
        csrf: page.csrf.clone(),
    };
    tossed
        .get("/v1/tasks")
        .await
        .refused(401, "missing_api_key");
    let ended = page
        .write(Method::DELETE, "/v1/session", &Value::Null)
        .await;
    let removed = ended.header("set-cookie").unwrap();
    assert!(removed.starts_with("__Host-mediagate_session=;") && removed.contains("; Secure"));
    // By plain HTTP browsers take no such name: there it is the short one.
    let plain = TestGateway::builder().without_workers().start().await;
    let page = Page::sign_in(&plain).await;
    assert!(page.cookie.starts_with("mediagate_session="));
}
