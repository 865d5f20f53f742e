//! The same order in other words: what decides the film, its price and its owner identifies it, not
//! how the request is written.

use reqwest::Method;
use reqwest::multipart::Form;
use serde_json::{Value, json};

use super::{NOTICE_TIME, hang_up, prompt, task_of};
use crate::support::TestGateway;

const CHAT: &str = "/v1/chat/completions";
const VIDEOS: &str = "/v1/videos";

/// A chat order with these fields changed or added.
fn chat_with(text: &str, fields: &Value) -> Value {
    let mut body = json!({"model": "animatic-1", "size": "480x480", "seconds": 2,
        "messages": [{"role": "user", "content": text}]});
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

#[tokio::test]
async fn a_lost_order_is_joined_in_other_words() {
    let mut gateway = TestGateway::builder().without_workers().start().await;
    gateway.client.documented = false;
    let mut lost = Vec::new();
    let variations = [
        json!({"stream": true}),
        json!({"stream": false, "stop": null}),
        json!({"temperature": 0.5}),
        json!({"video": {"seconds": "2"}, "seconds": null}),
        json!({"duration": 2.0, "seconds": null}),
        json!({"metadata": {"trace": "t-2"}, "request_id": "r-2"}),
        json!({"n": 1}),
        json!({"store": true}),
        json!({"stream_options": {"include_usage": true}}),
        json!({"tools": []}),
    ];
    for number in 0..variations.len() {
        let order = chat_with(&format!("lake {number}"), &json!({}));
        lost.push(hang_up(&gateway, CHAT, &order).await);
    }
    let parts = chat_with("lake in parts", &json!({}));
    let parts_task = hang_up(&gateway, CHAT, &parts).await;
    let clock = |time: &str| {
        let messages = json!([{"role": "system", "content": format!("It is {time}.")},
            {"role": "user", "content": "lake and clock"}]);
        chat_with("", &json!({"messages": messages}))
    };
    let clock_task = hang_up(&gateway, CHAT, &clock("10:00")).await;
    gateway.start_workers().await;
    for task in lost.iter().chain([&parts_task, &clock_task]) {
        gateway.finished(task).await;
    }
    tokio::time::sleep(NOTICE_TIME).await;
    for (number, (fields, task)) in variations.iter().zip(&lost).enumerate() {
        let order = chat_with(&format!("lake {number}"), fields);
        let answer = gateway.post(CHAT, &order).await;
        assert_eq!(&task_of(&answer), task, "{fields}");
    }
    let content = json!([{"type": "text", "text": "lake in parts"}]);
    let messages = json!([{"role": "user", "content": content}]);
    let in_parts = chat_with("", &json!({"seconds": "2", "messages": messages}));
    assert_eq!(task_of(&gateway.post(CHAT, &in_parts).await), parts_task);
    let later = gateway.post(CHAT, &clock("10:05")).await;
    assert_eq!(task_of(&later), clock_task);
    gateway.stop().await;
}

#[tokio::test]
async fn a_form_and_json_are_the_same_order() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let body = prompt("a lake");
    let first = gateway.post(VIDEOS, &body).await;
    let mut form = Form::new();
    for (name, value) in body.as_object().unwrap() {
        let text = value.as_str().unwrap();
        form = form.text(name.clone(), text.to_owned());
    }
    tokio::time::sleep(NOTICE_TIME).await;
    let request = gateway.request(Method::POST, VIDEOS).multipart(form);
    let second = gateway.send(request).await;
    let identical = second.header("x-identical-task").unwrap();
    assert_eq!(identical, task_of(&first));
    gateway.stop().await;
}

#[tokio::test]
async fn what_decides_the_film_or_its_owner_makes_another_order() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let order = chat_with("a lake", &json!({}));
    let task = hang_up(&gateway, CHAT, &order).await;
    tokio::time::sleep(NOTICE_TIME).await;
    for fields in [
        json!({"seconds": 3}),
        json!({"user": "someone"}),
        json!({"video": {"seed": 4}}),
        json!({"size": "854x480"}),
        json!({"callback_url": "https://example.com/hook"}),
    ] {
        let order = chat_with("a lake", &fields);
        let other = hang_up(&gateway, CHAT, &order).await;
        assert_ne!(other, task, "{fields}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_new_order_names_the_identical_one_before_it() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let first = gateway.post(VIDEOS, &prompt("a lake")).await;
    assert_eq!(first.header("x-identical-task"), None);
    let other = gateway.post(VIDEOS, &prompt("a sea")).await;
    assert_eq!(other.header("x-identical-task"), None);
    tokio::time::sleep(NOTICE_TIME).await;
    let second = gateway.post(VIDEOS, &prompt("a lake")).await;
    assert_ne!(task_of(&first), task_of(&second));
    let named = second.header("x-identical-task").map(ToOwned::to_owned);
    assert_eq!(named, Some(task_of(&first)));
    let record = format!("/v1/tasks/{}", task_of(&second));
    let record = gateway.get(&record).await.ok();
    assert_eq!(record["identical_task"], json!(task_of(&first)));
    // Under a key of its own it is a new order too.
    let keyed = gateway.request(Method::POST, VIDEOS);
    let keyed = keyed
        .header("idempotency-key", "k-1")
        .json(&prompt("a lake"));
    let keyed = gateway.send(keyed).await;
    assert!(keyed.header("x-identical-task").is_some());
    gateway.stop().await;
}
