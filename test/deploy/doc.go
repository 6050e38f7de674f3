// Package deploy runs Berth on the local cluster as deploy/ says: with the arguments, the
// service accounts, the certificates and the store configurations of the manifests, where
// only addresses and folders are those of this machine.
//
// So what is tested is what is shipped: that a real API server accepts every object and
// admits every pod; that the demo's work is done under exactly those rights; that no right
// is spare, by taking each away and naming what breaks; that nobody who is not who they
// should be gets anything out of the stores; and that any one member may be lost.
//
// Run it with `make deploy-check`. Start reading at newSystem.
package deploy
