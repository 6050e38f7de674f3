// Package program is what the programs here that measure have in common: how they begin and end.
package program
