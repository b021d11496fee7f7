#!/bin/sh
# Serves an agent on a port, under rules: it may read, edit files in the session's folders and look at git, and never touches keys.
#   proxy.sh PORT COMMAND…        for example: proxy.sh 4000 my-agent --acp
set -eu
port=$1
shift
exec acp proxy \
    --listen "tcp://127.0.0.1:$port" \
    --command "$*" \
    --policy write \
    --allow 'Bash(git:read)' \
    --deny 'Read(**/.env)' --deny 'Edit(**/.git/**)' --deny 'Bash(git push *)' \
    --journal journal \
    --ops 127.0.0.1:9464
