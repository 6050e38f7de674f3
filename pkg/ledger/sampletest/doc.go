// Package sampletest has documents that the tests of several packages of the ledger use.
package sampletest
