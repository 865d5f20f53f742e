//! Keys: who may call, from where, how often, for how much.

use std::net::IpAddr;
use std::time::Duration;

use mediagate_core::domain::keys::{self, KeyMatch, NewKey};
use mediagate_model::account::Scope;
use reqwest::Method;
use reqwest::header::HeaderValue;
use serde_json::json;

use crate::support::balancer::Balancer;
use crate::support::{TestGateway, sound, video_order, videos_order};

fn key(change: impl FnOnce(&mut NewKey)) -> NewKey {
    let mut new = NewKey {
        name: "test".into(),
        ..NewKey::default()
    };
    change(&mut new);
    new
}

#[tokio::test]
async fn every_endpoint_rejects_a_request_without_a_valid_key_first() {
    let gateway = TestGateway::builder()
        .without_workers()
        .manual_clock()
        .start()
        .await;
    let good = gateway.key.clone().unwrap();
    let paths = [
        (Method::POST, "/v1/chat/completions"),
        (Method::POST, "/v1/videos"),
        (Method::GET, "/v1/videos"),
        (Method::GET, "/v1/videos/video_x"),
        (Method::GET, "/v1/videos/video_x/content"),
        (Method::DELETE, "/v1/videos/video_x"),
        (Method::GET, "/v1/tasks"),
        (Method::GET, "/v1/tasks/x"),
        (Method::GET, "/v1/tasks/x/events"),
        (Method::POST, "/v1/tasks/x/cancel"),
        (Method::GET, "/v1/models"),
        (Method::GET, "/v1/models/x"),
        (Method::GET, "/metrics"),
        (Method::POST, "/musicgen/submit/music"),
        (Method::POST, "/musicgen/uploads/audio"),
        (Method::GET, "/musicgen/tasks/x"),
        (Method::GET, "/musicgen/fetch/x"),
        (Method::POST, "/musicgen/fetch"),
        (Method::GET, "/musicgen/feed/x"),
        (Method::GET, "/musicgen/clips"),
        (Method::GET, "/musicgen/clips/x"),
        (Method::DELETE, "/musicgen/clips/x"),
        (Method::POST, "/musicgen/clips/x/restore"),
        (Method::POST, "/musicgen/persona/create"),
        (Method::GET, "/musicgen/personas"),
        (Method::GET, "/musicgen/personas/x"),
        (Method::DELETE, "/musicgen/personas/x"),
    ];
    let anyone = gateway.without_key();
    for (method, path) in paths {
        let answer = anyone.send(anyone.request(method, path)).await;
        answer.refused(401, "missing_api_key");
        assert_eq!(answer.json["error"]["type"], "authentication_error");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        assert!(answer.header("x-ratelimit-limit-requests").is_none());
    }
    let mut mistyped = good.clone();
    let last_char = mistyped.pop().unwrap();
    mistyped.push(if last_char == 'a' { 'b' } else { 'a' });
    for authorization in [
        format!("Basic {good}"),
        good.clone(),
        "Bearer".into(),
        "Bearer ".into(),
        "Bearer x".into(),
        format!("Bearer {mistyped}"),
        format!("Bearer {}", "a".repeat(5000)),
        "Bearer \u{fc}".into(),
        // Well-formed, but never issued.
        format!("Bearer {}", unknown_key()),
    ] {
        let request = anyone
            .request(Method::GET, "/v1/models")
            .header("authorization", authorization.as_bytes());
        anyone.send(request).await.refused(401, "invalid_api_key");
    }
    let lower_case = anyone
        .request(Method::GET, "/v1/models")
        .header("authorization", format!("bearer {good}"));
    assert_eq!(anyone.send(lower_case).await.status, 200);

    let now = gateway.app.clock.now();
    let short_lived = gateway
        .caller(
            "default",
            key(|new| new.expires_at = Some(now.plus(Duration::from_mins(1)))),
        )
        .await;
    assert_eq!(short_lived.get("/v1/models").await.status, 200);
    gateway.app.clock.advance(Duration::from_mins(1));
    short_lived
        .get("/v1/models")
        .await
        .refused(401, "expired_api_key");

    let revoked = gateway.caller("default", key(|_| {})).await;
    assert_eq!(revoked.get("/v1/models").await.status, 200);
    let secret = revoked.key.clone().unwrap();
    assert!(gateway.revoke(&secret).await);
    revoked
        .get("/v1/models")
        .await
        .refused(401, "revoked_api_key");
    assert!(
        !gateway.revoke(&secret[..12]).await,
        "it was revoked before"
    );
    let unknown = keys::find(&gateway.app, "sk-mg-000000").await.unwrap();
    assert_eq!(unknown, KeyMatch::NoSuchKey);
    gateway.stop().await;
}

/// A well-formed key that was never issued.
fn unknown_key() -> String {
    const ALPHABET: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let random = "0".repeat(43);
    let mut number = crc32fast::hash(random.as_bytes());
    let mut checksum = Vec::new();
    for _ in 0..6 {
        checksum.insert(0, ALPHABET[(number % 62) as usize]);
        number /= 62;
    }
    format!("sk-mg-{random}{}", String::from_utf8(checksum).unwrap())
}

#[tokio::test]
async fn an_error_names_the_missing_scope() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let clip = gateway.upload("Song").await;
    let id = clip["id"].as_str().unwrap().to_owned();
    let body = json!({"task": "gen_stem", "continue_clip_id": id, "root_clip_id": id, "name": "x", "ids": [],
        "prompt": "x", "model": "animatic-1", "messages": [{"role": "user", "content": "x"}]});
    let required_scopes = [
        (
            Scope::VideoCreate,
            Method::POST,
            "/v1/chat/completions".to_owned(),
        ),
        (Scope::VideoCreate, Method::POST, "/v1/videos".into()),
        (
            Scope::MusicCreate,
            Method::POST,
            "/musicgen/submit/music".into(),
        ),
        (
            Scope::PersonaCreate,
            Method::POST,
            "/musicgen/persona/create".into(),
        ),
        (
            Scope::MediaUpload,
            Method::POST,
            "/musicgen/uploads/audio".into(),
        ),
        (Scope::TasksRead, Method::GET, "/v1/tasks".into()),
        (Scope::TasksRead, Method::GET, "/v1/videos".into()),
        (Scope::TasksRead, Method::GET, "/musicgen/clips".into()),
        (Scope::TasksRead, Method::GET, "/musicgen/personas".into()),
        (Scope::TasksRead, Method::POST, "/musicgen/fetch".into()),
        (
            Scope::TasksCancel,
            Method::POST,
            "/v1/tasks/x/cancel".into(),
        ),
        (Scope::TasksCancel, Method::DELETE, "/v1/videos/x".into()),
        (
            Scope::TasksCancel,
            Method::DELETE,
            format!("/musicgen/clips/{id}"),
        ),
        (
            Scope::TasksCancel,
            Method::POST,
            format!("/musicgen/clips/{id}/restore"),
        ),
        (
            Scope::TasksCancel,
            Method::DELETE,
            "/musicgen/personas/x".into(),
        ),
    ];
    for (scope, method, path) in required_scopes {
        let other_scopes = Scope::default_scopes()
            .into_iter()
            .filter(|other| *other != scope)
            .collect();
        let limited = gateway
            .caller("default", key(|new| new.scopes = other_scopes))
            .await;
        let answer = limited
            .send(limited.request(method.clone(), &path).json(&body))
            .await;
        answer.refused(403, "insufficient_scope");
        assert_eq!(answer.json["error"]["type"], "permission_error");
        assert!(
            answer.message().contains(scope.name()),
            "{}",
            answer.message()
        );
        // A known key's request counts even when it is rejected.
        assert!(answer.header("x-ratelimit-remaining-requests").is_some());
    }
    let admin = gateway
        .caller("default", key(|new| new.scopes = vec![Scope::Admin]))
        .await;
    assert_eq!(admin.get("/v1/tasks").await.status, 200);
    assert_eq!(admin.post("/v1/videos", &videos_order()).await.status, 200);
    let webhooks_only = gateway
        .caller(
            "default",
            key(|new| new.scopes = vec![Scope::WebhooksManage]),
        )
        .await;
    assert_eq!(
        webhooks_only.get("/v1/models").await.status,
        200,
        "any key may see the models"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_key_is_limited_to_its_models_and_networks() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let clip = gateway.upload("Song").await;
    let bound = gateway
        .caller(
            "default",
            key(|new| new.models = Some(vec!["stems-dsp-1".into()])),
        )
        .await;
    bound
        .post("/v1/videos", &videos_order())
        .await
        .refused(403, "model_not_allowed")
        .on_param("model");
    // The alias stands for the allowed model.
    let order = json!({"task": "gen_stem", "continue_clip_id": clip["id"], "mv": "chirp-auk"});
    assert_eq!(
        bound.post("/musicgen/submit/music", &order).await.status,
        200
    );

    let from_loopback = key(|new| new.networks = Some(vec!["127.0.0.0/8".parse().unwrap()]));
    let from_elsewhere = key(|new| new.networks = Some(vec!["10.0.0.0/8".parse().unwrap()]));
    let from_loopback = gateway.caller("default", from_loopback).await;
    assert_eq!(from_loopback.get("/v1/models").await.status, 200);
    let from_elsewhere = gateway.caller("default", from_elsewhere).await;
    from_elsewhere
        .get("/v1/models")
        .await
        .refused(403, "address_not_allowed");
    let spoofed = from_elsewhere
        .request(Method::GET, "/v1/models")
        .header("x-forwarded-for", "10.1.2.3");
    from_elsewhere
        .send(spoofed)
        .await
        .refused(403, "address_not_allowed");
    gateway.stop().await;

    let gateway = TestGateway::builder()
        .without_workers()
        .set(|settings| settings.trusted_proxies = Some(vec!["127.0.0.0/8".parse().unwrap()]))
        .start()
        .await;
    let from_elsewhere = key(|new| new.networks = Some(vec!["10.0.0.0/8".parse().unwrap()]));
    let from_elsewhere = gateway.caller("default", from_elsewhere).await;
    let status_through_proxy = async |hops: &str| {
        let request = from_elsewhere
            .request(Method::GET, "/v1/models")
            .header("x-forwarded-for", hops);
        from_elsewhere.send(request).await.status
    };
    assert_eq!(status_through_proxy("10.1.2.3").await, 200);
    assert_eq!(
        status_through_proxy("10.1.2.3, 8.8.8.8").await,
        403,
        "the last hop is the caller of the proxy"
    );
    assert_eq!(status_through_proxy("8.8.8.8, 10.1.2.3").await, 200);
    gateway.stop().await;
}

/// Callers at 127.0.0.2 behind the shipped `HAProxy`, which the gateway trusts.
#[tokio::test]
async fn a_forged_address_does_not_pass_a_proxy() {
    let gateway = TestGateway::builder()
        .without_workers()
        .set(|settings| settings.trusted_proxies = Some(vec!["127.0.0.1/32".parse().unwrap()]))
        .start()
        .await;
    let port = gateway.client.base.rsplit_once(':').unwrap().1;
    let proxy = Balancer::in_front_of(&[port.parse().unwrap()]).await;
    let bound = async |network: &str| {
        let networks = Some(vec![network.parse().unwrap()]);
        let mut caller = gateway
            .caller("default", key(|new| new.networks = networks))
            .await;
        caller.base.clone_from(&proxy.base);
        caller.http = reqwest::Client::builder()
            .no_proxy()
            .local_address(IpAddr::from([127, 0, 0, 2]))
            .build()
            .unwrap();
        caller
    };
    let forged: [&[&str]; 5] = [
        &[],
        &["203.0.113.7"],
        &["203.0.113.7, 203.0.113.7"],
        &["203.0.113.7", "203.0.113.7"],
        &["203.0.113.7, 127.0.0.1"],
    ];
    for (network, status) in [("203.0.113.0/24", 403), ("127.0.0.2/32", 200)] {
        let caller = bound(network).await;
        for hops in forged {
            let mut request = caller.request(Method::GET, "/v1/models");
            for hop in hops {
                request = request.header("x-forwarded-for", *hop);
            }
            let answer = caller.send(request).await;
            assert_eq!(answer.status, status, "{network}, {hops:?}");
        }
    }
    gateway.stop().await;
}

#[tokio::test]
async fn requests_per_minute_are_limited_and_reported() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let default_answer = gateway.get("/v1/models").await;
    assert_eq!(
        default_answer.header("x-ratelimit-limit-requests"),
        Some("600")
    );
    let slow = gateway
        .caller("default", key(|new| new.rpm = Some(3)))
        .await;
    for remaining in ["2", "1", "0"] {
        let answer = slow.get("/v1/models").await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("x-ratelimit-limit-requests"), Some("3"));
        assert_eq!(
            answer.header("x-ratelimit-remaining-requests"),
            Some(remaining)
        );
        assert!(answer.header("x-ratelimit-reset-requests").is_some());
    }
    let answer = slow.get("/v1/models").await;
    answer.refused(429, "rate_limit_exceeded");
    assert_eq!(answer.json["error"]["type"], "rate_limit_error");
    let wait: u32 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=21).contains(&wait), "{wait}");
    assert_eq!(answer.header("x-ratelimit-remaining-requests"), Some("0"));
    // Other keys are not held up.
    assert_eq!(gateway.get("/v1/models").await.status, 200);
    gateway.stop().await;
}

#[tokio::test]
async fn open_tasks_are_limited_even_for_concurrent_requests() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let limited = gateway
        .caller("default", key(|new| new.max_running = Some(2)))
        .await;
    let order = videos_order();
    let concurrent = (0..6).map(|_| limited.post("/v1/videos", &order));
    let answers = futures_util::future::join_all(concurrent).await;
    let accepted: Vec<_> = answers
        .iter()
        .filter(|answer| answer.status == 200)
        .collect();
    assert_eq!(accepted.len(), 2);
    for answer in answers.iter().filter(|answer| answer.status != 200) {
        answer.refused(429, "too_many_tasks");
    }
    let task = accepted[0].header("x-task-id").unwrap();
    limited
        .post(&format!("/v1/tasks/{task}/cancel"), &json!({}))
        .await
        .ok();
    assert_eq!(
        limited.post("/v1/videos", &videos_order()).await.status,
        200
    );
    // All or none: two more do not fit, so neither is accepted.
    gateway
        .post(
            &format!(
                "/v1/tasks/{}/cancel",
                accepted[1].header("x-task-id").unwrap()
            ),
            &json!({}),
        )
        .await
        .ok();
    let mut double_order = video_order();
    double_order["n"] = json!(2);
    limited
        .post("/v1/chat/completions", &double_order)
        .await
        .refused(429, "too_many_tasks");
    assert_eq!(
        gateway.get("/v1/tasks?status=queued").await.ok()["data"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    gateway.stop().await;
}

#[tokio::test]
async fn an_order_beyond_the_keys_limit_of_open_tasks_is_refused_for_good() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let limited = gateway
        .caller("default", key(|new| new.max_running = Some(2)))
        .await;
    let mut order = video_order();
    order["n"] = json!(3);
    for stream in [false, true] {
        order["stream"] = json!(stream);
        let answer = limited.post("/v1/chat/completions", &order).await;
        answer.refused(400, "invalid_value").on_param("n");
        assert!(
            answer.message().contains("at most 2"),
            "{}",
            answer.message()
        );
    }
    let quote = json!({"endpoint": "/v1/chat/completions", "body": order});
    limited
        .post("/v1/quote", &quote)
        .await
        .refused(400, "invalid_value")
        .on_param("body.n");
    // An order that fits once another task has ended can be retried.
    limited.post("/v1/videos", &videos_order()).await.ok();
    order["n"] = json!(2);
    limited
        .post("/v1/chat/completions", &order)
        .await
        .refused(429, "too_many_tasks");
    gateway.stop().await;
}

#[tokio::test]
async fn a_budget_includes_reservations_and_recovers_what_is_released() {
    let gateway = TestGateway::builder()
        .without_workers()
        .toml("[models.animatic-1]\nprice = { unit = \"second\", usd = \"0.10\" }\n[models.stems-dsp-1]\nprice = { unit = \"stem\", usd = \"0.04\" }")
        .start()
        .await;
    let clip = gateway.upload("Song").await;
    let limited = gateway
        .caller(
            "default",
            key(|new| new.budget = Some("0.25".parse().unwrap())),
        )
        .await;
    let first = limited.post("/v1/videos", &videos_order()).await;
    let first = first.header("x-task-id").unwrap().to_owned();
    let second = limited.post("/v1/videos", &videos_order()).await;
    assert_eq!(second.status, 200);
    let answer = limited.post("/v1/videos", &videos_order()).await;
    answer.refused(402, "budget_exceeded");
    assert_eq!(answer.json["error"]["type"], "budget_error");
    let order = json!({"task": "gen_stem", "continue_clip_id": clip["id"]});
    limited
        .post("/musicgen/submit/music", &order)
        .await
        .refused(402, "budget_exceeded");
    let view = gateway.get(&format!("/v1/tasks/{first}")).await.ok();
    assert_eq!(view["cost_usd"], "0.10");
    limited
        .post(&format!("/v1/tasks/{first}/cancel"), &json!({}))
        .await
        .ok();
    assert_eq!(
        gateway.get(&format!("/v1/tasks/{first}")).await.ok()["cost_usd"],
        "0.00"
    );
    let stems = limited.post("/musicgen/submit/music", &order).await;
    let stems = gateway
        .get(&format!("/v1/tasks/{}", stems.header("x-task-id").unwrap()))
        .await
        .ok();
    assert_eq!(stems["cost_usd"], "0.08");
    // 0.18 of 0.25 USD is used: another video exceeds this key's budget, but not another key's.
    limited
        .post("/v1/videos", &videos_order())
        .await
        .refused(402, "budget_exceeded");
    assert_eq!(
        gateway.post("/v1/videos", &videos_order()).await.status,
        200
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_well_formed_request_id_is_kept_and_another_is_replaced() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let answered_request_id = async |id: &str, path: &str| {
        let request = gateway
            .request(Method::GET, path)
            .header("x-request-id", id);
        gateway
            .send(request)
            .await
            .header("x-request-id")
            .unwrap()
            .to_owned()
    };
    let longest = "x".repeat(128);
    for path in ["/v1/models", "/v1/tasks/x", "/nowhere", "/healthz"] {
        assert_eq!(answered_request_id("abc-1._Z", path).await, "abc-1._Z");
        assert_eq!(answered_request_id(&longest, path).await, longest);
        for bad in ["a b", "a/b", &"x".repeat(129)] {
            let generated = answered_request_id(bad, path).await;
            assert!(
                generated.starts_with("req_") && generated.len() == 36,
                "{generated}"
            );
        }
    }
    let (first, second) = (gateway.get("/healthz").await, gateway.get("/healthz").await);
    assert_ne!(first.header("x-request-id"), second.header("x-request-id"));
    gateway.stop().await;
}

#[tokio::test]
async fn only_configured_origins_get_cors_headers() {
    let gateway = TestGateway::builder()
        .without_workers()
        .set(|settings| settings.cors_origins = Some(vec!["https://app.example".into()]))
        .start()
        .await;
    let headers_for = async |origin: &str| {
        let request = gateway
            .http
            .get(format!("{}/v1/models", gateway.base))
            .header("origin", origin);
        let answer = request.send().await.unwrap();
        let header = |name: &str| {
            let value = answer.headers().get(name);
            value.map(|value| value.to_str().unwrap().to_owned())
        };
        let names = [
            "access-control-allow-origin",
            "access-control-expose-headers",
        ];
        names.map(header)
    };
    let [origin, exposed] = headers_for("https://app.example").await;
    assert_eq!(origin.as_deref(), Some("https://app.example"));
    let exposed = exposed.unwrap();
    for name in ["x-identical-task", "x-ratelimit-remaining-requests"] {
        assert!(exposed.contains(name), "{exposed}");
    }
    assert_eq!(headers_for("https://evil.example").await[0], None);
    gateway.stop().await;
}

#[tokio::test]
async fn openais_sdk_works_from_a_configured_origin() {
    let gateway = TestGateway::builder()
        .without_workers()
        .set(|settings| settings.cors_origins = Some(vec!["https://app.example".into()]))
        .start()
        .await;
    let preflight = async |method: &str, headers: &str| {
        let address = format!("{}/v1/videos", gateway.base);
        let mut request = gateway
            .http
            .request(Method::OPTIONS, address)
            .header("origin", "https://app.example")
            .header("access-control-request-method", method);
        for line in headers.lines() {
            let line = HeaderValue::from_bytes(line.as_bytes()).unwrap();
            request = request.header("access-control-request-headers", line);
        }
        let answer = request.send().await.unwrap();
        [
            "access-control-allow-headers",
            "access-control-allow-methods",
        ]
        .map(|name| {
            let allowed = answer.headers().get(name);
            allowed
                .map_or("", |value| value.to_str().unwrap())
                .to_owned()
        })
    };
    let allowed_headers = async |headers: &str| {
        let [allowed, _] = preflight("POST", headers).await;
        allowed
    };
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
        let [_, allowed] = preflight(method, "authorization").await;
        assert!(
            allowed
                .split(',')
                .any(|allowed_method| allowed_method == method),
            "{allowed}"
        );
    }
    // What openai-node 6 sends from a browser, with a project and an idempotency key.
    let sdk_headers = "authorization,content-type,idempotency-key,openai-beta,openai-organization,openai-project,\
               x-stainless-arch,x-stainless-custom-poll-interval,x-stainless-helper-method,x-stainless-lang,\
               x-stainless-os,x-stainless-package-version,x-stainless-poll-helper,x-stainless-retry-count,\
               x-stainless-runtime,x-stainless-runtime-version,x-stainless-timeout";
    let sorted = |list: &str| {
        let mut list: Vec<String> = list
            .split(',')
            .map(|header| header.trim().to_owned())
            .collect();
        list.sort();
        list
    };
    assert_eq!(
        sorted(&allowed_headers(sdk_headers).await),
        sorted(sdk_headers)
    );
    // What a page sends to continue a stream and to read a part of a file.
    let of_pages = "if-match,last-event-id,range,user-agent";
    assert_eq!(sorted(&allowed_headers(of_pages).await), sorted(of_pages));
    let other_headers = "X-Stainless-Lang, cookie, x-csrf-token, x-stainless-<b>, x-forwarded-for";
    assert_eq!(allowed_headers(other_headers).await, "x-stainless-lang");
    assert_eq!(allowed_headers("cookie, \u{e9}").await, "");
    let two_lines = "authorization, cookie\ncontent-type";
    let allowed = allowed_headers(two_lines).await;
    assert_eq!(sorted(&allowed), ["authorization", "content-type"]);
    gateway.stop().await;
}

#[tokio::test]
async fn made_up_keys_do_not_block_valid_ones() {
    for postgres in [false, true] {
        let mut builder = TestGateway::builder().without_workers();
        if postgres {
            builder = builder.on_postgres();
        }
        let gateway = builder.start().await;
        let try_made_up_key = async || {
            let secret = keys::generate().unwrap();
            let stranger = gateway.with_key(secret.expose());
            stranger
                .get("/v1/tasks")
                .await
                .refused(401, "invalid_api_key");
        };
        let strangers = futures_util::future::join_all((0..300).map(|_| try_made_up_key()));
        let newcomers = async {
            for _ in 0..5 {
                let newcomer = gateway.caller("default", key(|_| {})).await;
                newcomer.get("/v1/tasks").await.ok();
            }
        };
        tokio::join!(strangers, newcomers);
        let cookie = format!("mediagate_session={}", "0".repeat(64));
        let stranger = gateway.without_key();
        let request = stranger.request(Method::GET, "/v1/tasks");
        let answer = stranger.send(request.header("cookie", cookie)).await;
        answer.refused(401, "expired_api_key");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn accounts_own_what_their_keys_make() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let owls = gateway.caller("night-owls", key(|_| {})).await;
    let clip =
        crate::support::gateway::upload(&owls, "Song", sound::wav_of(8_000, 1, &[9; 800])).await;
    assert_eq!(
        (&clip["handle"], &clip["display_name"]),
        (&json!("night-owls"), &json!("Night Owls"))
    );
    let second_caller = gateway.caller("night-owls", key(|_| {})).await;
    let path = format!("/musicgen/clips/{}", clip["id"].as_str().unwrap());
    assert_eq!(
        second_caller.get(&path).await.ok()["user_id"],
        clip["user_id"]
    );
    gateway.get(&path).await.refused(404, "clip_not_found");
    gateway.stop().await;
}
