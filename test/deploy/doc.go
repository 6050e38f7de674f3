// Package deploy runs Berth on the local cluster as deploy/ specifies: with the arguments, the service accounts, the
// certificates and the store configurations of the manifests, where only addresses and folders are those of this
// machine.
//
// So the tests cover the shipped manifests: a real API server accepts every object and admits every pod; the demo
// works under exactly those rights; no right is superfluous, which is shown by removing each and naming what breaks;
// no client without the right identity gets anything out of the stores; and any one member may be lost.
//
// Run it with `make deploy-check`. Start reading at newSystem.
package deploy
