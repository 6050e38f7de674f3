// Package ca is a certificate authority whose certificate and key are files. It signs the certificates of an
// installation (`berth certs`) and those of the local cluster (tools/cluster).
//
// An authority that its folder already has is used again, so that the certificates that it has signed stay valid.
// Everything else is replaced at each issue, its key too.
//
// The package is a module of its own: tools/cluster can import it without the dependencies of the rest of pkg.
//
// Start reading at Open.
package ca
