package ca

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	// authorityLife is how long the authority is valid: longer than an installation lives.
	authorityLife = 10 * 365 * 24 * time.Hour
	// backdate makes a machine whose clock is behind accept a new certificate.
	backdate = 5 * time.Minute
	// serialBits makes random serial numbers unique without a register (RFC 5280: at most 20 bytes).
	serialBits = 120
)

// The files in the folder of an authority.
const (
	CertFile = "ca.crt"
	KeyFile  = "ca.key"
)

// Authority signs certificates. It is a value that may be copied and used concurrently; its key never leaves the
// process except to KeyFile.
type Authority struct {
	Cert *x509.Certificate
	key  crypto.Signer
}

// Subject is the holder of a certificate.
type Subject struct {
	// Name is the common name: the user or the server. Groups are the Kubernetes groups of a user.
	Name   string
	Groups []string
	// Hosts are the names and addresses of a server. Without any, the certificate is good for clients only.
	Hosts []string
}

// Open reads the authority in dir, or creates one there with this common name. It refuses a folder with only one of
// the two files: a new authority would invalidate every certificate of the old one. The name of an authority that
// exists is not compared. Two processes must not create the same authority at the same time.
func Open(dir, name string, now time.Time) (Authority, error) {
	certFile, keyFile := filepath.Join(dir, CertFile), filepath.Join(dir, KeyFile)
	_, certErr := os.Stat(certFile)
	_, keyErr := os.Stat(keyFile)
	switch {
	case errors.Is(certErr, os.ErrNotExist) && errors.Is(keyErr, os.ErrNotExist):
		return create(certFile, keyFile, name, now)
	case certErr != nil || keyErr != nil:
		return Authority{}, fmt.Errorf("%s: want both %s and %s, or none: %w",
			dir, CertFile, KeyFile, errors.Join(certErr, keyErr))
	}
	certs, err := cert.CertsFromFile(certFile)
	if err != nil {
		return Authority{}, fmt.Errorf("%s: %w", certFile, err)
	}
	private, err := keyutil.PrivateKeyFromFile(keyFile)
	if err != nil {
		return Authority{}, fmt.Errorf("%s: %w", keyFile, err)
	}
	signer, ok := private.(crypto.Signer)
	if !ok || !certs[0].IsCA {
		return Authority{}, fmt.Errorf("%s: not a certificate authority", certFile)
	}
	return Authority{certs[0], signer}, nil
}

// create makes an authority and writes its two files, the certificate first. A crash between the two leaves a folder
// that Open refuses; nothing has been signed by then, so the certificate may be deleted.
func create(certFile, keyFile, name string, now time.Time) (Authority, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return Authority{}, err
	}
	template := signing(pkix.Name{CommonName: name}, now.Add(authorityLife))
	made, err := sign(template, key.Public(), Authority{template, key}, now)
	if err != nil {
		return Authority{}, err
	}
	if err := WriteFile(certFile, Encode(made)); err != nil {
		return Authority{}, err
	}
	return Authority{made, key}, WriteFile(keyFile, keyPEM)
}

// SignedBy returns a certificate of this authority's key that another authority signs: a peer that trusts only the
// other authority accepts this one's certificates if they come with it.
func (a Authority) SignedBy(other Authority, now time.Time) (*x509.Certificate, error) {
	template := signing(a.Cert.Subject, other.Cert.NotAfter)
	template.SubjectKeyId = a.Cert.SubjectKeyId
	return sign(template, a.key.Public(), other, now)
}

// Issue returns a new certificate for a subject, and its new key as PEM (ECDSA, P-256). The certificate is valid from
// shortly before now until life has passed. It is good for clients, and for servers if the subject has hosts.
func (a Authority) Issue(s Subject, now time.Time, life time.Duration) (*x509.Certificate, []byte, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: s.Name, Organization: s.Groups}, NotAfter: now.Add(life),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if len(s.Hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, host := range s.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, host)
	}
	made, err := sign(template, key.Public(), a, now)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate of %s: %w", s.Name, err)
	}
	return made, keyPEM, nil
}

// signing returns the template of a certificate that signs others.
func signing(subject pkix.Name, until time.Time) *x509.Certificate {
	return &x509.Certificate{
		Subject: subject, NotAfter: until,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, BasicConstraintsValid: true, IsCA: true,
	}
}

// sign completes a template and returns the certificate that an authority makes of it.
func sign(template *x509.Certificate, key crypto.PublicKey, by Authority, now time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return nil, err
	}
	template.SerialNumber, template.NotBefore = serial, now.Add(-backdate)
	der, err := x509.CreateCertificate(rand.Reader, template, by.Cert, key, by.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// newKey returns a new ECDSA key on P-256, also as PEM. All servers and clients of an installation support it, and it
// is fast to make.
func newKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	pem, err := keyutil.MarshalPrivateKeyToPEM(key)
	return key, pem, err
}

// Encode returns certificates as PEM, in this order.
func Encode(list ...*x509.Certificate) []byte {
	pem, err := cert.EncodeCertificates(list...)
	if err != nil {
		return nil // they were just parsed; the library fails only on a nil certificate
	}
	return pem
}

// WriteFile replaces a file that only its owner may read, and creates the folder. It is atomic for readers: a server
// that reads the file at the same time sees the old one or the new one. It does not sync the file: after a power
// failure certificates are issued again.
func WriteFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
