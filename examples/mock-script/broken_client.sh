#!/bin/sh
# A client that initializes and then opens no session.
echo '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}'
sleep 0.3
