package pki

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

// These are the files in the folder of an authority or a member.
const (
	caCert, caKey   = "ca.crt", "ca.key"
	tlsCert, tlsKey = "tls.crt", "tls.key"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// openAuthority reads the authority in dir, or creates one there with this common name. It refuses a folder with only
// one of the two files: a new authority would invalidate every certificate of the old one.
func openAuthority(dir, name string, now time.Time) (authority, error) {
	certFile, keyFile := filepath.Join(dir, caCert), filepath.Join(dir, caKey)
	_, certErr := os.Stat(certFile)
	_, keyErr := os.Stat(keyFile)
	switch {
	case errors.Is(certErr, os.ErrNotExist) && errors.Is(keyErr, os.ErrNotExist):
		return newAuthority(dir, name, now)
	case certErr != nil || keyErr != nil:
		return authority{}, fmt.Errorf("--out: %s: want both %s and %s, or none: %w",
			dir, caCert, caKey, errors.Join(certErr, keyErr))
	}
	certs, err := cert.CertsFromFile(certFile)
	if err != nil {
		return authority{}, fmt.Errorf("--out: %s: %w", certFile, err)
	}
	private, err := keyutil.PrivateKeyFromFile(keyFile)
	if err != nil {
		return authority{}, fmt.Errorf("--out: %s: %w", keyFile, err)
	}
	signer, ok := private.(crypto.Signer)
	if !ok || !certs[0].IsCA {
		return authority{}, fmt.Errorf("--out: %s: not a certificate authority", certFile)
	}
	return authority{certs[0], signer}, nil
}

func newAuthority(dir, name string, now time.Time) (authority, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return authority{}, err
	}
	serial, err := newSerial()
	if err != nil {
		return authority{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(authorityLife),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return authority{}, err
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		return authority{}, err
	}
	if err := writePrivate(dir, caCert, encode(made)); err != nil {
		return authority{}, err
	}
	return authority{made, key}, writePrivate(dir, caKey, keyPEM)
}

// signedBy returns a certificate of this authority's key that another authority signs: a peer that trusts only the
// other authority accepts this one's certificates if they come with it.
func (a authority) signedBy(other authority, now time.Time) (*x509.Certificate, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: a.cert.Subject, SubjectKeyId: a.cert.SubjectKeyId,
		NotBefore: now.Add(-backdate), NotAfter: other.cert.NotAfter,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, other.cert, a.key.Public(), other.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// member is the subject of a certificate.
type member struct {
	// name is the common name. For a client it is also its user in etcd and NATS.
	name string
	// hosts are the names and addresses under which it serves.
	hosts []string
}

func (a authority) issue(
	m member, now time.Time, life time.Duration,
) (made *x509.Certificate, keyPEM []byte, err error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: m.name},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(life),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	template.DNSNames, template.IPAddresses = split(m.hosts)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate of %s: %w", m.name, err)
	}
	if made, err = x509.ParseCertificate(der); err != nil {
		return nil, nil, fmt.Errorf("certificate of %s: %w", m.name, err)
	}
	return made, keyPEM, nil
}

func newKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	pem, err := keyutil.MarshalPrivateKeyToPEM(key)
	return key, pem, err
}

func newSerial() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
}

// encode returns certificates as PEM, in this order.
func encode(list ...*x509.Certificate) []byte {
	pem, err := cert.EncodeCertificates(list...)
	if err != nil {
		return nil // they were just parsed; the library fails only on a nil certificate
	}
	return pem
}
