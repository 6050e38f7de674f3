// Package codec encodes the ledger's documents as ledgerpb and decodes them. Equal documents have equal bytes, so that
// a transaction that is built twice is the same one.
//
// A value of a later schema version is refused. Fields that a later version has added to a value are kept when the
// value is written again (Unknown, RestoreUnknown). Marshal and Unmarshal are for the packages that own values of other
// kinds: registry, roster, identity and pause.
package codec
