package app

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/ledger/etcd"
)

// roles is the format of the file of `berth secure-ledger`.
type roles struct {
	Users []role `json:"users"`
}

type role struct {
	Name   string   `json:"name"`
	Writes []string `json:"writes"`
}

// newSecureLedgerCommand returns the command `berth secure-ledger`.
func newSecureLedgerCommand() *cobra.Command {
	o := &options{}
	var file string
	cmd := &cobra.Command{
		Use:   "secure-ledger",
		Short: "Give every service its part of the ledger in etcd, and refuse everybody else",
		Long: "Makes the users and roles of a file in etcd and switches authentication on: from then on who a\n" +
			"client is, is the common name of its certificate. It may be repeated, and takes back what the file no\n" +
			"longer gives. The certificate given here has to be that of etcd's root. An etcd that others share\n" +
			"refuses them too afterwards, unless they have users of their own.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			access, err := readRoles(file)
			if err != nil {
				return err
			}
			if len(o.etcdEndpoints) == 0 {
				return errors.New("--etcd-endpoints: empty: want the ledger's")
			}
			err = etcd.Secure(cmd.Context(), etcd.Config{
				Endpoints: o.etcdEndpoints, Prefix: o.ledgerPrefix,
				CAFile: o.tls.etcdCA, CertFile: o.tls.etcdCert, KeyFile: o.tls.etcdKey,
			}, access)
			if err != nil {
				return fmt.Errorf("--etcd-endpoints: %w", err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d users, authentication is on\n", len(access))
			return err
		},
	}
	f := cmd.Flags()
	o.addEtcd(f)
	f.StringVar(&file, "roles", "", "file with the users and what they write, as in deploy/helm/berth/files")
	_ = cmd.MarkFlagRequired("roles") // fails only for a flag that does not exist
	return cmd
}

func readRoles(file string) ([]etcd.Access, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--roles: %w", err)
	}
	return parseRoles(file, raw)
}

// parseRoles parses the content of a file.
func parseRoles(file string, raw []byte) ([]etcd.Access, error) {
	var r roles
	if err := yaml.UnmarshalStrict(raw, &r); err != nil {
		return nil, fmt.Errorf("--roles: %s: %w", file, err)
	}
	if len(r.Users) == 0 {
		return nil, fmt.Errorf("--roles: %s: users: empty: want a list of name and writes", file)
	}
	access := make([]etcd.Access, len(r.Users))
	for i, u := range r.Users {
		access[i] = etcd.Access{User: u.Name, Writes: u.Writes}
	}
	return access, nil
}
