// Package recording is the file format of a history: everything that a recorder saw of a ledger and of the API server,
// in the order in which it received it. Package audit replays such a file, `berth audit record` writes it
// (cmd/berth/internal/record), and tests write histories in memory.
//
// A file is lines of JSON. The first is a Header; each other line is a Record with exactly one of its fields set:
//
//	{"header":{"format":"berth-history","version":1,"cluster":"…"}}
//	{"ledger":{"revision":41,"listed":true,"events":[…]}}
//	{"object":{"kind":"pod","uid":"…","rv":1007,"pod":{…}}}
//	{"mark":{"ledger":41,"objects":1007,"until":41,"unix":1764300000000}}
//	{"end":{"objects":1012,"ledger":43,"reason":"stopped"}}
//
// Each kind of object, and the ledger, is in its own order; between them only marks state an order. A file may end
// anywhere: a line that was not written completely is dropped when it is read, and a file without an End is a
// recording that was interrupted. A field that is added needs no new version, since readers ignore fields that they do
// not know; a field that changes its meaning does.
//
// The package has no dependency on the rules, so that the recorder does not contain them.
//
// Start reading at Record.
package recording
