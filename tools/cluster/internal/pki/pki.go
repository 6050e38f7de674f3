package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
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

	dir  string
	cert *x509.Certificate
	key  crypto.Signer
}

// Subject is whom a certificate is for.
type Subject struct {
	// Name is the user or server, Groups the Kubernetes groups of a user.
	Name   string
	Groups []string
	// Hosts are the names and addresses of a server; without any, the
	// certificate is good for clients only.
	Hosts []string
}

// Open loads the authority in dir or creates it.
func Open(dir string) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	a := &Authority{
		Pair:                  pairIn(dir, "ca"),
		ServiceAccountKeyFile: filepath.Join(dir, "service-account.key"),
		dir:                   dir,
	}
	if _, err := ensureKey(a.ServiceAccountKeyFile); err != nil {
		return nil, err
	}
	key, err := ensureKey(a.KeyFile)
	if err != nil {
		return nil, err
	}
	a.key = key
	if _, err := os.Stat(a.CertFile); errors.Is(err, os.ErrNotExist) {
		cert, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "berth-local-cluster"}, key)
		if err != nil {
			return nil, fmt.Errorf("create the certificate authority: %w", err)
		}
		a.cert = cert
		return a, certutil.WriteCert(a.CertFile, encodeCert(cert.Raw))
	}
	certs, err := certutil.CertsFromFile(a.CertFile)
	if err != nil {
		return nil, fmt.Errorf("load the certificate authority: %w", err)
	}
	a.cert = certs[0]
	return a, nil
}

// Issue writes name.crt and name.key for the subject.
func (a *Authority) Issue(name string, subject Subject) (Pair, error) {
	pair := pairIn(a.dir, name)
	key, err := ensureKey(pair.KeyFile)
	if err != nil {
		return Pair{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return Pair{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		Subject:      pkix.Name{CommonName: subject.Name, Organization: subject.Groups},
		SerialNumber: serial,
		NotBefore:    now.Add(-time.Minute),
		NotAfter:     now.Add(validity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if len(subject.Hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, host := range subject.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, host)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("issue the certificate of %s: %w", subject.Name, err)
	}
	return pair, certutil.WriteCert(pair.CertFile, encodeCert(der))
}

// ensureKey loads a private key or creates it (ECDSA, made in microseconds).
func ensureKey(path string) (crypto.Signer, error) {
	encoded, _, err := keyutil.LoadOrGenerateKeyFile(path)
	if err != nil {
		return nil, fmt.Errorf("load or create %s: %w", path, err)
	}
	parsed, err := keyutil.ParsePrivateKeyPEM(encoded)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", path, err)
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("parse %s: %T cannot sign", path, parsed)
	}
	return key, nil
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: der})
}

func pairIn(dir, name string) Pair {
	return Pair{
		CertFile: filepath.Join(dir, name+".crt"),
		KeyFile:  filepath.Join(dir, name+".key"),
	}
}
