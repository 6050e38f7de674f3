// Package strictyaml reads configuration files so that every mistake is found at once and
// named: which file, which field, which value, and what would have been accepted.
//
// Start reading at Report (the list of mistakes) and Decode (one YAML document into one
// Go value).
//
// Invariants:
//
//   - Decoding is strict: an unknown field, a field given twice, a second document and a
//     value of the wrong type are mistakes, none of them is dropped silently.
//   - Names are case-sensitive, as in the API server's strict decoding.
//   - The verdict is the library's (sigs.k8s.io/json); the walk in explain.go only words
//     it. If the walk finds nothing to say, the library's own words are used.
//   - What could be read is there to be judged, whatever else could not: one sort of mistake does not
//     hide another. Only a mistake that follows from another is left out (Report).
//   - Nothing panics, whatever the bytes; a mistake is always one line.
package strictyaml
