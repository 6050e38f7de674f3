package pki

import (
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/keyutil"

	"github.com/berth-scheduler/berth/pkg/ca"
)

// validity of issued certificates: a local cluster is not kept for a year.
const validity = 365 * 24 * time.Hour

// Pair names the files of a certificate and its key.
type Pair struct {
	CertFile string `json:"certFile"`
	KeyFile  string `json:"keyFile"`
}

// Authority issues the certificates of one cluster.
type Authority struct {
	// Pair is the authority's own certificate and key.
	Pair
	// ServiceAccountKeyFile signs and checks service account tokens.
	ServiceAccountKeyFile string

	dir    string
	signer ca.Authority
}

// Open loads the authority in dir or creates it.
func Open(dir string) (*Authority, error) {
	signer, err := ca.Open(dir, "berth-local-cluster", time.Now())
	if err != nil {
		return nil, fmt.Errorf("open the certificate authority: %w", err)
	}
	serviceAccount := filepath.Join(dir, "service-account.key")
	if _, _, err := keyutil.LoadOrGenerateKeyFile(serviceAccount); err != nil {
		return nil, fmt.Errorf("load or create %s: %w", serviceAccount, err)
	}
	return &Authority{
		Pair:                  Pair{CertFile: filepath.Join(dir, ca.CertFile), KeyFile: filepath.Join(dir, ca.KeyFile)},
		ServiceAccountKeyFile: serviceAccount,
		dir:                   dir,
		signer:                signer,
	}, nil
}

// Issue writes name.crt and name.key for the subject.
func (a *Authority) Issue(name string, subject ca.Subject) (Pair, error) {
	pair := Pair{CertFile: filepath.Join(a.dir, name+".crt"), KeyFile: filepath.Join(a.dir, name+".key")}
	cert, key, err := a.signer.Issue(subject, time.Now(), validity)
	if err != nil {
		return Pair{}, err
	}
	if err := ca.WriteFile(pair.KeyFile, key); err != nil {
		return Pair{}, err
	}
	return pair, ca.WriteFile(pair.CertFile, ca.Encode(cert))
}
