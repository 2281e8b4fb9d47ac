// Package wire has what the peers in Go have in common. The arguments and the output are those of src/lib.rs;
// a client may have options of its own.
package wire

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Name is the name in the certificate.
const Name = "wire.test"

// Peer is a server and a client.
type Peer struct {
	Name string
	// Serve is the server at an address, until it is killed.
	Serve func(address string, certificate tls.Certificate) error
	// Connect opens a connection, and a stream in it. Options are the words after the number of bytes.
	Connect func(address string, roots *x509.CertPool, options []string) (io.ReadWriter, error)
}

// Run does what the command line says.
func (peer Peer) Run() {
	if err := peer.run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func (peer Peer) run(words []string) error {
	switch {
	case len(words) == 3 && words[0] == "serve":
		pair, err := tls.LoadX509KeyPair(certificate(words[2]), filepath.Join(words[2], "key.pem"))
		if err != nil {
			return err
		}
		return peer.Serve(words[1], pair)
	case len(words) >= 4 && words[0] == "get":
		pem, err := os.ReadFile(certificate(words[2]))
		if err != nil {
			return err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pem)
		wanted, err := strconv.ParseUint(words[3], 10, 64)
		if err != nil {
			return err
		}
		return peer.get(words[1], roots, wanted, words[4:])
	}
	return errors.New("write: serve ADDRESS DIRECTORY, or get ADDRESS DIRECTORY BYTES [OPTION]")
}

func certificate(directory string) string {
	return filepath.Join(directory, "certificate.pem")
}

// get requests so many bytes, reads them and reports the time.
func (peer Peer) get(address string, roots *x509.CertPool, wanted uint64, options []string) error {
	begin := time.Now()
	stream, err := peer.Connect(address, roots, options)
	if err != nil {
		return err
	}
	if _, err = stream.Write(binary.BigEndian.AppendUint64(nil, wanted)); err != nil {
		return err
	}
	bytes, err := io.Copy(io.Discard, stream)
	seconds := time.Since(begin).Seconds()
	if uint64(bytes) != wanted {
		return fmt.Errorf("%d bytes arrived of %d: %w", bytes, wanted, err)
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"peer": peer.Name, "bytes": bytes, "seconds": seconds})
}

// Send reads a client's request, writes as many bytes, and closes the stream.
func Send(stream io.ReadWriteCloser) {
	defer stream.Close()
	var request [8]byte
	if _, err := io.ReadFull(stream, request[:]); err != nil {
		return
	}
	piece := make([]byte, 64<<10)
	for left := binary.BigEndian.Uint64(request[:]); left > 0; {
		count, err := stream.Write(piece[:min(left, uint64(len(piece)))])
		if err != nil {
			return
		}
		left -= uint64(count)
	}
}
