// Package pki makes the keys, certificates and kubeconfig files of a local cluster, on top of client-go's certificate
// and kubeconfig packages.
//
// The authority and the service account key are kept when they exist, so that a cluster brought up again in the same
// directory still accepts the tokens and client certificates of its earlier life. Everything else is issued again
// each time.
package pki
