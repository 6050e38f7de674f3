package app

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/berth-scheduler/berth/cmd/berth/internal/embedded"
	"github.com/berth-scheduler/berth/cmd/berth/internal/reach"
	"github.com/berth-scheduler/berth/pkg/ledger/etcd"
)

// shippedNamespace is the namespace of the manifests in deploy/k8s.
const shippedNamespace = "berth-system"

// locatedByDefault describes the default of commands that find an installation by themselves (locate).
const locatedByDefault = "default without --nats-url, --etcd-endpoints and --data-dir: " + shippedNamespace

// installation is a Berth in a cluster whose stores a command reaches through the API server, by forwarding a port.
// Its Namespace is empty if the command does not use it.
type installation struct {
	reach.Installation
	// cluster is set while there is a connection.
	cluster *reach.Cluster
}

// addInstallation adds the flags that name an installation in the cluster; absent describes what the command does
// without them.
func (o *options) addInstallation(f *pflag.FlagSet, absent string) {
	f.StringVar(&o.installation.Namespace, "berth-namespace", "",
		"namespace of an installation in the kubeconfig's cluster, whose stores are reached by port-forwarding;\n"+absent)
	f.StringVar(&o.installation.Name, "berth-name", "berth",
		"prefix of the names of that installation, as in the manifests")
}

// locate chooses the Berth that a command addresses if no flag names one: that of `berth up` in the working directory
// if one runs there, else the installation in the kubeconfig's cluster. Without a kubeconfig it chooses the working
// directory, whose error message then names what is missing. It is called once, after the flags were parsed.
func (o *options) locate() error {
	// Any address is a choice, even of one store alone.
	named := len(o.nats.urls)+len(o.etcdEndpoints) > 0 || o.dataDir != ""
	switch {
	case named && o.installation.Namespace != "":
		return fmt.Errorf("--berth-namespace: %s: want none with --nats-url, --etcd-endpoints or --data-dir",
			o.installation.Namespace)
	case named || o.installation.Namespace != "":
		return nil
	}
	// A running `berth up` in the working directory wins: a user who has started one there means that one.
	_, err := embedded.ReadEndpoints(defaultDataDir)
	if err == nil || !o.hasKubeconfig() {
		o.dataDir = defaultDataDir
		return nil
	}
	o.installation.Namespace = shippedNamespace
	return nil
}

// endpoint forwards a port to a store of the installation. The connection to the installation is opened with the first
// store and closed by disconnect.
func (o *options) endpoint(ctx context.Context, s reach.Store) (reach.Endpoint, error) {
	// One connection to the API server serves the forwarding of both stores.
	if o.installation.cluster == nil {
		cfg, err := o.restConfig()
		if err != nil {
			return reach.Endpoint{}, err
		}
		if o.installation.cluster, err = reach.Open(ctx, cfg, o.installation.Installation); err != nil {
			return reach.Endpoint{}, fmt.Errorf("--berth-namespace: %w", err)
		}
	}
	e, err := o.installation.cluster.Endpoint(ctx, s)
	if err != nil {
		return e, fmt.Errorf("--berth-namespace: %w", err)
	}
	return e, nil
}

// openInstalledLedger connects to the ledger of the installation, as its observer, who may only read.
func (o *options) openInstalledLedger(ctx context.Context) (*etcd.Store, error) {
	e, err := o.endpoint(ctx, reach.Etcd)
	if err != nil {
		return nil, err
	}
	// The certificate, if there is one, decides about TLS: an installation has it for all stores or for none.
	scheme := "http://"
	if e.TLS != nil {
		scheme = "https://"
	}
	store, err := etcd.Open(ctx, etcd.Config{Endpoints: []string{scheme + e.Address}, Prefix: o.ledgerPrefix, TLS: e.TLS})
	return store, o.explainStore("--etcd-endpoints", err)
}

// disconnect closes the connection to the installation, and stops the forwarding. Stores must be closed before.
func (o *options) disconnect() {
	if o.installation.cluster != nil {
		o.installation.cluster.Close()
	}
}

// explainStore adds to a store's error what is known about its installation.
func (o *options) explainStore(flag string, err error) error {
	switch {
	case err == nil:
		return nil
	case o.installation.cluster != nil:
		return fmt.Errorf("--berth-namespace: %w", o.installation.cluster.Explain(err))
	}
	return fmt.Errorf("%s: %w", flag, err)
}
