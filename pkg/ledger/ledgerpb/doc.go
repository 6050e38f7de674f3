// Package ledgerpb is the wire form of the ledger's values, generated from ledger.proto.
//
// Nothing but pkg/ledger's codec should use it: that is where limits are enforced and where
// the generated messages become the domain's own types.
package ledgerpb
