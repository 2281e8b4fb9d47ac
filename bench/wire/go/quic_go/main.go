// quic-go with its defaults (CUBIC; receive windows that grow to 6 and 15 MB). The arguments and the output are those
// of src/lib.rs.
package main

import (
	"context"
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

	"github.com/quic-go/quic-go"
)

// The name in the certificate.
const name = "wire.test"

var protocols = []string{"wire"}

func main() {
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(words []string) error {
	switch {
	case len(words) == 3 && words[0] == "serve":
		return serve(words[1], words[2])
	case len(words) == 4 && words[0] == "get":
		bytes, err := strconv.ParseUint(words[3], 10, 64)
		if err != nil {
			return err
		}
		return get(words[1], words[2], bytes)
	}
	return errors.New("write: serve ADDRESS DIRECTORY, or get ADDRESS DIRECTORY BYTES")
}

func serve(address, directory string) error {
	pair, err := tls.LoadX509KeyPair(filepath.Join(directory, "certificate.pem"), filepath.Join(directory, "key.pem"))
	if err != nil {
		return err
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: protocols}
	listener, err := quic.ListenAddr(address, config, nil)
	if err != nil {
		return err
	}
	for {
		connection, err := listener.Accept(context.Background())
		if err != nil {
			return err
		}
		go send(connection)
	}
}

func send(connection *quic.Conn) {
	stream, err := connection.AcceptStream(context.Background())
	if err != nil {
		return
	}
	var request [8]byte
	if _, err = io.ReadFull(stream, request[:]); err != nil {
		return
	}
	piece := make([]byte, 64<<10)
	for left := binary.BigEndian.Uint64(request[:]); left > 0 && err == nil; {
		var count int
		count, err = stream.Write(piece[:min(left, uint64(len(piece)))])
		left -= uint64(count)
	}
	_ = stream.Close()
}

func get(address, directory string, wanted uint64) error {
	pem, err := os.ReadFile(filepath.Join(directory, "certificate.pem"))
	if err != nil {
		return err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: name, NextProtos: protocols}
	config.RootCAs.AppendCertsFromPEM(pem)
	begin := time.Now()
	connection, err := quic.DialAddr(context.Background(), address, config, nil)
	if err != nil {
		return err
	}
	defer connection.CloseWithError(0, "")
	stream, err := connection.OpenStream()
	if err != nil {
		return err
	}
	if _, err = stream.Write(binary.BigEndian.AppendUint64(nil, wanted)); err != nil {
		return err
	}
	if err = stream.Close(); err != nil {
		return err
	}
	bytes, err := io.Copy(io.Discard, stream)
	seconds := time.Since(begin).Seconds()
	if uint64(bytes) != wanted {
		return fmt.Errorf("%d bytes arrived of %d: %w", bytes, wanted, err)
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"peer": "quic-go", "bytes": bytes, "seconds": seconds})
}
