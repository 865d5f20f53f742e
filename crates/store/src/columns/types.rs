//! Column encodings of the model's types: integers, names as text, or JSON.

use std::borrow::Cow;

use super::{FromColumn, ToColumn, json_value};
use crate::{Row, SqlValue, StoreError};
use mediagate_model::account::BudgetPeriod;
use mediagate_model::attribution::Metadata;
use mediagate_model::audit::ActorKind;
use mediagate_model::budget::BudgetOwner;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::ErrorCode;
use mediagate_model::ids::{
    AccountId, AlertId, AssetId, AuditId, ClipId, DeliveryId, EndpointId, EventId, IntentId, KeyId,
    PersonaId, RequestEntryId, RequestId, SubmissionId, TaskId, UserLimitsId,
};
use mediagate_model::intent::IntentResult;
use mediagate_model::ledger::EntryKind;
use mediagate_model::media::MediaType;
use mediagate_model::money::{ChargeState, MicroDollars};
use mediagate_model::music::{ClipUpstream, PersonaUpstream, RecordingNotes};
use mediagate_model::price::{Bill, Tariff};
use mediagate_model::provenance::{Provenance, ResultKind};
use mediagate_model::submission::SubmissionState;
use mediagate_model::task::{
    ApprovalState, MediaKind, StemTarget, TaskPayload, TaskResult, TaskState,
};
use mediagate_model::webhook::{
    AttemptError, DeliveryState, DisableReason, EventType, SignatureScheme,
};

impl<T: FromColumn> FromColumn for Option<T> {
    fn from_column(
        row: &Row<'_>,
        index: usize,
        column: &'static str,
    ) -> Result<Option<Self>, StoreError> {
        T::from_column(row, index, column).map(Some)
    }
}

impl<T: ToColumn> ToColumn for Option<T> {
    fn to_column(&self) -> SqlValue<'_> {
        self.as_ref().map_or(SqlValue::Null, T::to_column)
    }
}

impl<T: ToColumn + ?Sized> ToColumn for &T {
    fn to_column(&self) -> SqlValue<'_> {
        T::to_column(self)
    }
}

impl FromColumn for String {
    fn from_column(
        row: &Row<'_>,
        index: usize,
        _column: &'static str,
    ) -> Result<Option<Self>, StoreError> {
        row.text_or_null(index)
    }
}

impl ToColumn for str {
    fn to_column(&self) -> SqlValue<'_> {
        SqlValue::Text(Cow::Borrowed(self))
    }
}

impl ToColumn for String {
    fn to_column(&self) -> SqlValue<'_> {
        self.as_str().to_column()
    }
}

impl ToColumn for ErrorCode {
    fn to_column(&self) -> SqlValue<'_> {
        self.name().into()
    }
}

impl FromColumn for RequestId {
    fn from_column(
        row: &Row<'_>,
        index: usize,
        column: &'static str,
    ) -> Result<Option<Self>, StoreError> {
        let Some(value) = row.text_or_null(index)? else {
            return Ok(None);
        };
        let id = Self::from_caller(&value);
        id.ok_or(StoreError::Unreadable { column, value }).map(Some)
    }
}

impl ToColumn for RequestId {
    fn to_column(&self) -> SqlValue<'_> {
        self.as_str().to_column()
    }
}

/// Types stored as integers: how one is read, if it is in range, and how it is written.
macro_rules! integers {
    ($($type:ty: $read:expr, $write:expr;)+) => {$(
        impl FromColumn for $type {
            fn from_column(row: &Row<'_>, index: usize, column: &'static str) -> Result<Option<Self>, StoreError> {
                let read: fn(i64) -> Option<Self> = $read;
                let Some(stored) = row.int_or_null(index)? else {
                    return Ok(None);
                };
                let value = || StoreError::Unreadable { column, value: stored.to_string() };
                read(stored).ok_or_else(value).map(Some)
            }
        }

        impl ToColumn for $type {
            fn to_column(&self) -> SqlValue<'_> {
                SqlValue::from(*self)
            }
        }

        impl From<$type> for SqlValue<'_> {
            fn from(value: $type) -> Self {
                let write: fn($type) -> i64 = $write;
                Self::Int(write(value))
            }
        }
    )+};
}

integers! {
    i64: Some, |value| value;
    u8: |stored| Self::try_from(stored).ok(), i64::from;
    u32: |stored| Self::try_from(stored).ok(), i64::from;
    u64: |stored| Self::try_from(stored).ok(), |value| i64::try_from(value).unwrap_or(i64::MAX);
    bool: |stored| Some(stored != 0), i64::from;
    Timestamp: |stored| Some(Self::from_micros(stored)), Timestamp::micros;
    MicroDollars: |stored| Some(Self::new(stored)), MicroDollars::get;
}

macro_rules! ids {
    ($($type:ident),+ $(,)?) => {$(
        impl FromColumn for $type {
            fn from_column(row: &Row<'_>, index: usize, column: &'static str) -> Result<Option<Self>, StoreError> {
                row.parse_or_null(index, column)
            }
        }

        impl ToColumn for $type {
            fn to_column(&self) -> SqlValue<'_> {
                SqlValue::from(*self)
            }
        }

        impl From<$type> for SqlValue<'_> {
            fn from(value: $type) -> Self {
                Self::Text(Cow::Owned(value.to_string()))
            }
        }
    )+};
}

ids! {
    AccountId, AlertId, AssetId, AuditId, ClipId, DeliveryId, EndpointId, EventId, IntentId, KeyId, PersonaId, RequestEntryId,
    SubmissionId, TaskId, UserLimitsId,
}

/// Enums, stored by the names of their values.
macro_rules! names {
    ($($type:ident::$name:ident),+ $(,)?) => {$(
        impl FromColumn for $type {
            fn from_column(row: &Row<'_>, index: usize, column: &'static str) -> Result<Option<Self>, StoreError> {
                row.parse_or_null(index, column)
            }
        }

        impl ToColumn for $type {
            fn to_column(&self) -> SqlValue<'_> {
                SqlValue::from(*self)
            }
        }

        impl From<$type> for SqlValue<'_> {
            fn from(value: $type) -> Self {
                Self::Text(Cow::Borrowed(value.$name()))
            }
        }
    )+};
}

names! {
    ActorKind::name, ApprovalState::name, AttemptError::name, BudgetOwner::name, BudgetPeriod::name, DeliveryState::name,
    DisableReason::name, EntryKind::name, EventType::name, MediaKind::name, MediaType::extension, ChargeState::name,
    ResultKind::into_str, SignatureScheme::name,
    SubmissionState::name, TaskState::name,
}

macro_rules! jsons {
    ($($type:ty),+ $(,)?) => {$(
        impl FromColumn for $type {
            fn from_column(row: &Row<'_>, index: usize, column: &'static str) -> Result<Option<Self>, StoreError> {
                row.json_or_null(index, column)
            }
        }

        impl ToColumn for $type {
            fn to_column(&self) -> SqlValue<'_> {
                json_value(self)
            }
        }
    )+};
}

jsons! {
    Bill, ClipUpstream, IntentResult, Metadata, TaskResult, TaskPayload, PersonaUpstream, Provenance, RecordingNotes, StemTarget,
    Tariff, Vec<ClipId>, Vec<String>, Vec<ipnet::IpNet>, orders::JobHandle,
    serde_json::Value,
}
