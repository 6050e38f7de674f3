package app

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/cmd/berth/internal/pki"
)

// defaultValidity leaves ample time when certificates are renewed once a quarter.
const defaultValidity = 365 * 24 * time.Hour

// newCertsCommand returns the command `berth certs`.
func newCertsCommand() *cobra.Command {
	var i pki.Installation
	cmd := &cobra.Command{
		Use:   "certs",
		Short: "Make or renew the certificates of an installation",
		Long: "Writes two authorities, the certificates of services and stores, and a manifest with all certificates as\n" +
			"secrets. One authority is for services and for stores towards them, the other (folder peers) for the\n" +
			"members of a store among each other. An authority that the directory has already signs again: that is a\n" +
			"renewal, which running services pick up without a restart. Keep both ca.key where only you can read them.",
		Example: "  berth certs --out berth-certs\n  kubectl apply -f berth-certs/secrets.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := pki.Issue(i, time.Now()); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "wrote", filepath.Join(i.Dir, pki.SecretsFile))
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&i.Dir, "out", "berth-certs", "directory to write to")
	f.StringVar(&i.Name, "name", "berth", "first part of all names, as in the manifests")
	f.StringVar(&i.Namespace, "namespace", "berth-system", "namespace of the secrets")
	f.StringSliceVar(&i.Hosts, "host", nil, "further names or addresses of every server, such as 127.0.0.1")
	f.DurationVar(&i.Life, "validity", defaultValidity, "how long certificates are valid, e.g. 2160h")
	f.BoolVar(&i.AcceptServicesAuthority, "peers-accept-services-authority", false,
		"members of a store accept each other by certificates of the services' authority too; only while upgrading\n"+
			"an installation made before they had an authority of their own")
	return cmd
}
