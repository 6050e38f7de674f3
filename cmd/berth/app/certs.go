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

// newCertsCommand returns the command `berth certs`. It contacts no server, and writes files that only the user may
// read. The authorities are made once and kept; everything else is replaced by each run, so renewing is running the
// command again and applying the manifest.
//
// The exit code is 1 if a flag is wrong or a file cannot be written; repeating the command replaces all certificates,
// also those that were written before the failure.
func newCertsCommand() *cobra.Command {
	var i pki.Installation
	cmd := &cobra.Command{
		Use:   "certs",
		Short: "Create or renew the certificates of an installation",
		Long: "Writes two certificate authorities, the certificates of the services and the stores, and a manifest with\n" +
			"all certificates as Secrets. One authority signs the certificates that services use, and that stores use\n" +
			"towards services; the other (directory peers) signs those that the members of a store use among each\n" +
			"other. Authorities that already exist in the directory are used again to sign new certificates; running\n" +
			"services load renewed certificates without a restart. Keep both ca.key files where only you can read them.",
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
	f.StringVar(&i.Name, "name", "berth", "prefix of all names, as in the manifests")
	f.StringVar(&i.Namespace, "namespace", "berth-system", "namespace of the Secrets")
	f.StringSliceVar(&i.Hosts, "host", nil, "additional DNS names or IP addresses of every server, such as 127.0.0.1")
	f.DurationVar(&i.Life, "validity", defaultValidity, "validity period of the certificates, e.g. 2160h")
	f.BoolVar(&i.AcceptServicesAuthority, "peers-accept-services-authority", false,
		"let the members of a store also accept each other's certificates from the services' authority; only while\n"+
			"upgrading an installation from before members had an authority of their own")
	return cmd
}
