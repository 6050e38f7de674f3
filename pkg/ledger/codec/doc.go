// Package codec encodes the ledger's documents as ledgerpb and decodes them. Equal documents have equal bytes, so that
// a transaction that is built twice is the same one.
//
// A value of a later schema version is refused. Fields that a later version has added to a value are kept when the
// value is written again (Unknown, RestoreUnknown). Marshal and Unmarshal are for the packages that own values of other
// kinds: registry, roster, identity and pause.
//
// # Compatibility
//
// Each message has a schema version. A binary writes ledger.SchemaVersion, and reads that version and earlier ones; it
// refuses a later one, because a member that guessed could contradict a promise. Fields can be added within a version:
// a binary that does not know them carries them along in Later. So a rolling upgrade does not lose what newer members
// have written.
//
// Decoding checks that a value fits its key (the UID in both is the same), that roles and states are known, and that
// the value is within the bounds of package ledger. A value that fails is an error that names the key and the revision;
// the reader must stop, and not continue without it. The cause of a fence is the exception: one that does not fit is
// read as none, because it is no reason to refuse a document.
//
// # Forms
//
// Pod UIDs in the usual form are 16 bytes on the wire, others are text (uuidBytes): a document has up to 256 entries,
// and a UID is a large part of a small one. Maps are sorted lists, because the order of protobuf maps is not defined.
// Roles, states and causes have the numbers of their wire form; compile-time assertions keep them together.
//
// # By difference
//
// A member that follows a document decodes each revision by difference from the one before (DecodeNodeDocAfter), and
// takes documents that it has put itself as they were built (Built). DecodeNodeDoc uses the generated code alone and
// defines the result; property tests and fuzzing compare the two.
//
// One file per group of documents: nodes (codec.go, entry.go, difference.go, plain.go, built.go), budgets, volumes,
// pools and plans (claims.go), the floor and incarnations (names.go).
package codec
