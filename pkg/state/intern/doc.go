// Package intern keeps one copy of equal values for as long as it is in use, so that a million pods made from a
// thousand templates cost a thousand templates.
//
// Start reading at Table.Get.
//
// Invariants:
//
//   - While a value is reachable, Get returns that very value for the bytes it stands for: equal bytes and equal
//     pointers are equivalent.
//   - A table keeps no value alive. A value that is not referenced any more is forgotten some time after the
//     garbage collector has found it.
//   - Values are immutable. A value does not show which goroutine built it, or when.
package intern
