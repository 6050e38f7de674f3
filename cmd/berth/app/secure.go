package app

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/ledger/etcd"
)

// roles is the format of the file of `berth secure-ledger`: a user for each service, with the keys that it may write.
type roles struct {
	Users []role `json:"users"`
}

// role is one user: Name is the common name of its certificate, Writes are keys or prefixes of keys below the ledger's
// prefix.
type role struct {
	Name   string   `json:"name"`
	Writes []string `json:"writes"`
}

// newSecureLedgerCommand returns the command `berth secure-ledger`. It contacts etcd alone, with the certificate of
// the user root; the manifests run it as the Job etcd-roles. It is idempotent: it may be repeated after a crash, and
// after each upgrade. The exit code is 1 if a change fails. Authentication is enabled last, when all users and roles
// exist, so that a failure locks no service out.
func newSecureLedgerCommand() *cobra.Command {
	o := &options{}
	var file string
	cmd := &cobra.Command{
		Use:   "secure-ledger",
		Short: "Give each service access to its part of the ledger in etcd, and deny all other clients",
		Long: "Creates in etcd the users and roles that a file lists, and enables authentication: from then on etcd\n" +
			"identifies clients by the common name of their certificate. The command can be repeated; it revokes what\n" +
			"the file no longer grants. Its own certificate must be that of etcd's root user. In an etcd that is shared\n" +
			"with other applications, these are then denied as well, unless they have users of their own.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// The file is read before etcd is contacted, so that a mistake in it changes nothing.
			access, err := readRoles(file)
			if err != nil {
				return err
			}
			if len(o.etcdEndpoints) == 0 {
				return errors.New("--etcd-endpoints: not set: want the endpoints of the ledger")
			}
			err = etcd.Secure(cmd.Context(), etcd.Config{
				Endpoints: o.etcdEndpoints, Prefix: o.ledgerPrefix,
				CAFile: o.tls.etcdCA, CertFile: o.tls.etcdCert, KeyFile: o.tls.etcdKey,
			}, access)
			if err != nil {
				return fmt.Errorf("--etcd-endpoints: %w", err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d users, authentication is enabled\n", len(access))
			return err
		},
	}
	f := cmd.Flags()
	o.addEtcd(f)
	f.StringVar(&file, "roles", "", "file with the users and the keys that each may write, as in deploy/helm/berth/files")
	_ = cmd.MarkFlagRequired("roles") // fails only for a flag that does not exist
	return cmd
}

// readRoles reads the file of --roles.
func readRoles(file string) ([]etcd.Access, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--roles: %w", err)
	}
	return parseRoles(file, raw)
}

// parseRoles parses the content of a file, strictly: a misspelt field would otherwise grant nothing and deny the
// service.
func parseRoles(file string, raw []byte) ([]etcd.Access, error) {
	var r roles
	if err := yaml.UnmarshalStrict(raw, &r); err != nil {
		return nil, fmt.Errorf("--roles: %s: %w", file, err)
	}
	// An empty list would enable authentication without a user for any service.
	if len(r.Users) == 0 {
		return nil, fmt.Errorf("--roles: %s: users: empty: want a list of name and writes", file)
	}
	access := make([]etcd.Access, len(r.Users))
	for i, u := range r.Users {
		access[i] = etcd.Access{User: u.Name, Writes: u.Writes}
	}
	return access, nil
}
