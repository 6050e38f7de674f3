// Package strictyaml reads configuration files so that every mistake is found at once and named: which file, which
// field, which value, and what would have been accepted:
//
//	policy.yaml: gracePeriodSeconds: -1: want 0 or more seconds
//
// The scheduler's configuration, its plugins' arguments and the descheduler's policy are read by it.
//
// Start reading at Report (the list of mistakes) and Decode (one YAML document into one Go value).
//
// A file goes through three steps, each of which adds to one Report:
//
//  1. JSON turns the document into JSON, or records why it is not one well-formed document.
//  2. Decode decodes it strictly. If the library refuses it, explain compares the document with the Go type and names
//     each place where they differ; the values that cannot be read are taken out, and the rest is decoded.
//  3. The caller checks what was decoded, and adds its own mistakes with Add.
//
// Report.Err is then nil, or one error with a line for each mistake.
//
// Invariants:
//
//   - Decoding is strict: an unknown field, a field given twice, a second document and a value of the wrong type are
//     mistakes, none of them is dropped silently.
//   - Names are case-sensitive, as in the API server's strict decoding.
//   - The library (sigs.k8s.io/json) decides what is accepted; explain.go only finds the words. If it finds none, the
//     library's own error is used.
//   - Whatever could be read is checked, even if other parts could not: one sort of mistake does not hide another.
//     Only a mistake that follows from another is left out (Report).
//   - Nothing panics, whatever the bytes; a mistake is always one line.
package strictyaml
