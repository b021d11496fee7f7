# An agent for scripts/task-faults: asked "Task NAME counts to 7 every 0.1 s", it counts, and writes down what it does.
# FOLDER/NAME.prompt gets a line when the prompt is read, FOLDER/NAME.begun one before each number is said, FOLDER/NAME.said
# one afterwards, and FOLDER/pids the numbers of all agents.
#
#   sh task-faults-agent.sh FOLDER
echo $$ >>"$1/pids"
read -r uuid </proc/sys/kernel/random/uuid
while read -r line; do
    id=${line#*'"id":'}
    id=${id%%[,\}]*}
    case $line in
    *'"method":"initialize"'*) result='{"protocolVersion":1}' ;;
    *'"method":"session/new"'*)
        # As real agents do, it takes a moment: what breaks then finds tasks that are about to be claimed.
        sleep 0.3
        result='{"sessionId":"'$uuid'"}'
        ;;
    *'"method":"session/prompt"'*)
        name=${line##*Task }
        name=${name%% *}
        last=${line##* counts to }
        last=${last%%[!0-9]*}
        pause=${line##* every }
        pause=${pause%% *}
        echo "$uuid" >>"$1/$name.prompt"
        number=1
        while [ "$number" -le "$last" ]; do
            echo "$number" >>"$1/$name.begun"
            echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"'$uuid'","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'$number' "}}}}'
            echo "$number" >>"$1/$name.said"
            sleep "$pause"
            number=$((number + 1))
        done
        result='{"stopReason":"end_turn"}'
        ;;
    *) continue ;;
    esac
    echo '{"jsonrpc":"2.0","id":'$id',"result":'$result'}'
done
