// Package ledgerpb is the wire form of the ledger's values, generated from ledger.proto.
//
// Only pkg/ledger's codec should use it: the codec enforces the limits and converts the generated messages to the
// ledger's own types.
package ledgerpb
