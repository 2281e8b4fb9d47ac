// Hysteria 2, a proxy over QUIC, with its defaults (receive windows of 8 and 20 MB). What the proxy connects its client
// to is a source in its own process, so that the server sends zeros from memory, as those of the other peers do.
//
// Without an option the client does not know its bandwidth, and the server uses Hysteria's BBR. With the option MBPS
// it reports that bandwidth, and the server sends at this rate whatever is lost ("Brutal").
package main

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"strconv"

	"github.com/apernet/hysteria/core/v2/client"
	"github.com/apernet/hysteria/core/v2/server"

	"rampmeter/bench/wire/wire"
)

// What the client wants to be connected to. The source answers to any name.
const source = "source:0"

func main() {
	wire.Peer{Name: "hysteria", Serve: serve, Connect: connect}.Run()
}

func serve(address string, certificate tls.Certificate) error {
	socket, err := net.ListenPacket("udp", address)
	if err != nil {
		return err
	}
	proxy, err := server.NewServer(&server.Config{
		TLSConfig:     server.TLSConfig{Certificates: []tls.Certificate{certificate}},
		Conn:          socket,
		Outbound:      sources{},
		Authenticator: anyone{},
		DisableUDP:    true,
	})
	if err != nil {
		return err
	}
	return proxy.Serve()
}

// Sources are what the proxy connects clients to.
type sources struct{ server.Outbound }

func (sources) TCP(string) (net.Conn, error) {
	near, far := net.Pipe()
	go wire.Send(far)
	return near, nil
}

type anyone struct{}

func (anyone) Authenticate(net.Addr, string, uint64) (bool, string) { return true, "" }

func connect(address string, roots *x509.CertPool, options []string) (io.ReadWriter, error) {
	remote, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, err
	}
	config := &client.Config{
		ServerAddr: remote,
		TLSConfig:  client.TLSConfig{ServerName: wire.Name, RootCAs: roots},
	}
	if len(options) > 0 {
		mbps, err := strconv.ParseFloat(options[0], 64)
		if err != nil {
			return nil, err
		}
		config.BandwidthConfig.MaxRx = uint64(mbps * 1e6 / 8)
	}
	proxy, _, err := client.NewClient(config)
	if err != nil {
		return nil, err
	}
	return proxy.TCP(source)
}
