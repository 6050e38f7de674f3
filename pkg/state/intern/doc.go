// Package intern keeps one copy of equal values for as long as somebody holds it, so that
// a million pods made from a thousand templates cost a thousand templates.
//
// Start reading at Table.Get.
//
// Invariants:
//
//   - While a value is reachable, Get returns that very value for its key: equal keys and
//     equal pointers are the same statement.
//   - A table holds nothing alive. What nobody holds any more is forgotten some time after
//     the garbage collector has found it.
//   - Values are immutable. Which goroutine built one, and when, cannot be told from it.
package intern
